package preview

import (
	"crypto/sha256"
	"encoding/base64"
	"html"
	"net/http"
	"strings"
)

// Page is what a browser shows in the place of a port. Its texts are plain text.
type Page struct {
	Status      int
	Title, Text string
	// Next is what to do.
	Next string
	// Reload has the browser ask again after a few seconds.
	Reload bool
}

// Browser reports whether a person looks at the answer of a request: a browser opens a page.
func Browser(r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	if mode := r.Header.Get("Sec-Fetch-Mode"); mode != "" {
		return mode == "navigate"
	}
	return strings.HasPrefix(r.Header.Get("Accept"), "text/html")
}

const style = "body{font:16px/1.5 system-ui,sans-serif;max-width:38em;margin:15vh auto;padding:0 1em;color:#222;background:#fff}" +
	"h1{font-size:1.4em}p.next{color:#555}@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}p.next{color:#aaa}}"

// Write answers a request with the page. It has no script, loads nothing, and can be in no frame.
func (p Page) Write(w http.ResponseWriter) {
	sum := sha256.Sum256([]byte(style))
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	if p.Reload {
		h.Set("Refresh", "5")
	}
	if p.Status == http.StatusTooManyRequests {
		h.Set("Retry-After", "1")
	}
	w.WriteHeader(p.Status)
	title := html.EscapeString(p.Title)
	_, _ = w.Write([]byte("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\"><title>" + title +
		"</title><style>" + style + "</style></head><body><h1>" + title + "</h1><p>" + html.EscapeString(p.Text) + "</p><p class=\"next\">" + html.EscapeString(p.Next) + "</p></body></html>\n")) // a client that is gone sees nothing
}
