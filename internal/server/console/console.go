package console

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"embed"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
	"sync"

	"hortus.dev/api"
)

//go:embed all:dist
var dist embed.FS

const (
	// assets is the path below which the files are.
	assets = "/console/assets/"
	// placeholder stands in the document for a text that is new in each answer. Styles that a terminal or an editor adds have it.
	placeholder = "NONCE"
)

// Console serves the files.
type Console struct {
	index []byte
	files map[string]*file // by path
}

// file is one of the files.
type file struct {
	media string
	plain []byte

	once   sync.Once
	packed []byte // nil if it is not smaller
}

// New reads the embedded files.
func New() (*Console, error) {
	c := &Console{files: map[string]*file{}}
	err := fs.WalkDir(dist, "dist", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := dist.ReadFile(name)
		if err != nil {
			return err
		}
		if rest := strings.TrimPrefix(name, "dist/"); rest == "index.html" {
			c.index = content
		} else {
			c.files["/"+rest] = &file{media: mediaOf(name), plain: content}
		}
		return nil
	})
	if err == nil && bytes.Count(c.index, []byte(placeholder)) != 1 {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "the files of the console: %w", err)
	}
	return c, nil
}

func mediaOf(name string) string {
	switch path.Ext(name) {
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	}
	return mime.TypeByExtension(path.Ext(name))
}

// Takes reports whether a request is for the console: the document of a browser, or a file.
func (c *Console) Takes(r *http.Request) bool {
	if strings.HasPrefix(r.URL.Path, assets) {
		return true
	}
	return r.URL.Path == "/" && (r.Method == http.MethodGet || r.Method == http.MethodHead) && acceptsHTML(r)
}

// acceptsHTML reports whether a browser asks for a document. Programs accept anything, which is not enough.
func acceptsHTML(r *http.Request) bool {
	for part := range strings.SplitSeq(strings.Join(r.Header.Values("Accept"), ","), ",") {
		media, _, err := mime.ParseMediaType(part)
		if err == nil && media == "text/html" {
			return true
		}
	}
	return false
}

// ServeHTTP implements http.Handler.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Vary", "Accept, Accept-Encoding")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "only GET is possible here", http.StatusMethodNotAllowed)
		return
	}
	if r.URL.Path == "/" {
		c.document(w)
		return
	}
	f := c.files[r.URL.Path]
	if f == nil {
		http.Error(w, "no such file: reload the page", http.StatusNotFound)
		return
	}
	h.Set("Content-Type", f.media)
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	// An image may be opened as a document of its own.
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; sandbox")
	content := f.plain
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		if packed := f.gzip(); packed != nil {
			h.Set("Content-Encoding", "gzip")
			content = packed
		}
	}
	_, _ = w.Write(content)
}

// gzip returns the content compressed, nil if that saves nothing.
func (f *file) gzip() []byte {
	f.once.Do(func() {
		var b bytes.Buffer
		z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
		if err != nil {
			return
		}
		_, err = z.Write(f.plain)
		if cerr := z.Close(); err == nil && cerr == nil && b.Len() < len(f.plain) {
			f.packed = b.Bytes()
		}
	})
	return f.packed
}

// document writes the page, which has no data of anybody's.
func (c *Console) document(w http.ResponseWriter) {
	nonce := rand.Text()
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-"+nonce+"'; img-src 'self' blob:; connect-src 'self'; "+
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types svelte-trusted-html")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
	h.Set("X-Frame-Options", "DENY")
	_, _ = w.Write(bytes.Replace(c.index, []byte(placeholder), []byte(nonce), 1))
}
