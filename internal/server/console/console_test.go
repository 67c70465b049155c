package console

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

// maxFirst is the maximum size of the compressed scripts of the first page.
const maxFirst = 200 << 10

func newConsole(t *testing.T) *Console {
	t.Helper()
	c, err := New()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func get(c *Console, path string, headers ...string) *http.Response {
	r := httptest.NewRequest("GET", path, nil)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	c.ServeHTTP(w, r)
	return w.Result()
}

func read(t *testing.T, resp *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestTakes wants the document for browsers, and everything else as it was before there was a console.
func TestTakes(t *testing.T) {
	c := newConsole(t)
	const browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
	for _, test := range []struct {
		method, path, accept string
		want                 bool
	}{
		{"GET", "/", browser, true}, {"HEAD", "/", browser, true}, {"GET", "/?x=1", "text/html", true}, {"GET", "/console/assets/x.js", "*/*", true},
		{"GET", "/", "*/*", false}, {"GET", "/", "", false}, {"GET", "/", "application/json, text/plain", false}, {"GET", "/", "text/htmlx", false},
		{"POST", "/", browser, false}, {"GET", "/sandboxes", browser, false}, {"GET", "/v1/info", browser, false}, {"GET", "/console/session", browser, false},
	} {
		r := httptest.NewRequest(test.method, test.path, nil)
		r.Header.Set("Accept", test.accept)
		if got := c.Takes(r); got != test.want {
			t.Errorf("%s %s, %q: %v", test.method, test.path, test.accept, got)
		}
	}
}

// TestDocument looks at the policy of the page, and that the page keeps to it: no script, style or handler stands in it, and nothing
// is of another origin.
func TestDocument(t *testing.T) {
	c := newConsole(t)
	first, second := get(c, "/"), get(c, "/")
	policy := first.Header.Get("Content-Security-Policy")
	nonce := regexp.MustCompile(`'nonce-([A-Z2-7]+)'`).FindStringSubmatch(policy)
	if nonce == nil || strings.Contains(second.Header.Get("Content-Security-Policy"), nonce[1]) {
		t.Fatalf("the number is not new each time: %s", policy)
	}
	for _, want := range []string{"default-src 'none'", "script-src 'self';", "connect-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'"} {
		if !strings.Contains(policy, want) {
			t.Errorf("the policy lacks %s: %s", want, policy)
		}
	}
	if strings.Contains(policy, "unsafe") || strings.Contains(policy, "http") || strings.Contains(policy, "*") {
		t.Errorf("the policy is too wide: %s", policy)
	}
	for name, want := range map[string]string{
		"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cross-Origin-Opener-Policy": "same-origin", "X-Frame-Options": "DENY",
		"Cache-Control": "no-store", "Content-Type": "text/html; charset=utf-8",
	} {
		if got := first.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	page := read(t, first)
	if !strings.Contains(page, `content="`+nonce[1]+`"`) || strings.Contains(page, placeholder) {
		t.Error("the page does not have the number")
	}
	if bad := regexp.MustCompile(`(?i)<script[^>]*>[^<]|<style|\son[a-z]+=|style=|javascript:|(?:src|href)="(?:https?:)?//`).FindString(page); bad != "" {
		t.Errorf("the page has %q", bad)
	}
}

// TestAssets asks for every file, and for what is none.
func TestAssets(t *testing.T) {
	c := newConsole(t)
	for path, f := range c.files {
		if !strings.HasPrefix(path, assets) || !regexp.MustCompile(`-[\w-]{8}\.(js|css|svg)$`).MatchString(path) {
			t.Errorf("the name of %s does not change with its content", path)
		}
		resp := get(c, path, "Accept-Encoding", "gzip, br")
		if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != f.media || f.media == "" || !strings.Contains(resp.Header.Get("Cache-Control"), "immutable") ||
			resp.Header.Get("X-Content-Type-Options") != "nosniff" || resp.Header.Get("Cross-Origin-Resource-Policy") != "same-origin" {
			t.Errorf("%s: %d %v", path, resp.StatusCode, resp.Header)
		}
		if resp.Header.Get("Content-Encoding") == "gzip" {
			z, err := gzip.NewReader(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			if b, err := io.ReadAll(z); err != nil || string(b) != string(f.plain) {
				t.Errorf("%s: compressed it is another file (%v)", path, err)
			}
		}
		if plain := read(t, get(c, path)); plain != string(f.plain) {
			t.Errorf("%s: %d bytes, want %d", path, len(plain), len(f.plain))
		}
	}
	for _, path := range []string{assets, assets + "none.js", assets + "../index.html", "/index.html"} {
		if resp := get(c, path); resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %d", path, resp.StatusCode)
		}
	}
	r := httptest.NewRequest("POST", assets+"x.js", nil)
	w := httptest.NewRecorder()
	if c.ServeHTTP(w, r); w.Code != http.StatusMethodNotAllowed {
		t.Error(w.Code)
	}
}

// TestFirstPage bounds what a browser loads before the page can be used. Terminal and editor are not part of it.
func TestFirstPage(t *testing.T) {
	c := newConsole(t)
	total := 0
	for _, m := range regexp.MustCompile(`(?:src|href)="(/console/assets/[^"]+\.js)"`).FindAllSubmatch(c.index, -1) {
		f := c.files[string(m[1])]
		if f == nil {
			t.Fatalf("%s is not there", m[1])
		}
		if strings.Contains(string(m[1]), "terminal") || strings.Contains(string(m[1]), "editor") {
			t.Errorf("the first page loads %s", m[1])
		}
		total += len(f.gzip())
	}
	if total == 0 || total > maxFirst {
		t.Errorf("the first page has %d bytes of compressed script, at most %d", total, maxFirst)
	}
	t.Logf("%d bytes of compressed script", total)
}
