package s3

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"hortus.dev/api"
	"hortus.dev/internal/storage/layer/archive"
	"hortus.dev/test/archivetest"
	"hortus.dev/test/tier"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// at opens a bucket of a test's server.
func at(t *testing.T, s *httptest.Server, cfg Config) *Bucket {
	t.Helper()
	return in(t, s.URL, "team/one", cfg)
}

// in opens the part of a bucket of a server that has a prefix.
func in(t *testing.T, url, prefix string, cfg Config) *Bucket {
	t.Helper()
	var err error
	cfg.Location, err = Parse("s3://" + archivetest.Bucket + "/" + prefix + "?endpoint=" + url)
	must(t, err)
	cfg.PartSize = 5 << 20
	b, err := Open(cfg)
	must(t, err)
	return b
}

func TestBucket(t *testing.T) {
	archivetest.Run(t, func(t *testing.T) archive.Blobs { return at(t, archivetest.Server(t, nil), Config{}) })
}

// TestGateway is TestBucket with a server that others use in production.
func TestGateway(t *testing.T) {
	tier.Soak(t)
	url := archivetest.Gateway(t)
	n := 0
	archivetest.Run(t, func(t *testing.T) archive.Blobs {
		n++
		return in(t, url, fmt.Sprintf("team/%d", n), Config{})
	})
}

// TestRequests: requests have signatures and the prefix, and the record is stored last. The parts
// of an upload that fails are removed.
func TestRequests(t *testing.T) {
	requests := make(chan *http.Request, 1000)
	b := at(t, archivetest.Server(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			requests <- r.Clone(context.Background())
			h.ServeHTTP(w, r)
		})
	}), Config{})
	must(t, archive.Archive{Blobs: b}.Save(t.Context(), archivetest.Name, archivetest.Tree(t)))
	if err := b.Put(t.Context(), "half", io.MultiReader(bytes.NewReader(make([]byte, 11<<20)), iotest.ErrReader(io.ErrUnexpectedEOF))); err == nil {
		t.Fatal("half an object was stored")
	}
	close(requests)
	var stored []string
	started, aborted := 0, 0
	for r := range requests {
		if !strings.HasPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 Credential=name-of-a-test-key/") {
			t.Errorf("%s %s has no signature", r.Method, r.URL)
		}
		if !strings.HasPrefix(r.URL.Path, "/"+archivetest.Bucket+"/team/one/") {
			t.Errorf("%s %s", r.Method, r.URL)
		}
		switch {
		case r.Method == http.MethodPut && r.URL.RawQuery == "":
			stored = append(stored, r.URL.Path)
		case r.Method == http.MethodPost && r.URL.Query().Has("uploads"):
			started++
		case r.Method == http.MethodDelete:
			aborted++
		}
	}
	if n := len(stored); n != 2 || !strings.HasSuffix(stored[0], ".tar.zst") || !strings.HasSuffix(stored[1], archivetest.Name+".json") {
		t.Errorf("stored %q", stored)
	}
	if started != 1 || aborted != 1 {
		t.Errorf("%d uploads in parts, %d aborted", started, aborted)
	}
}

// TestErrors: each failure says what to do, and none says a secret.
func TestErrors(t *testing.T) {
	answer := func(status int, code string) func(http.Handler) http.Handler {
		return func(http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/xml")
				w.WriteHeader(status)
				io.WriteString(w, "<Error><Code>"+code+"</Code><Message>\u009b31m"+strings.Repeat("long", 1000)+"</Message></Error>")
			})
		}
	}
	for _, c := range []struct {
		name   string
		around func(http.Handler) http.Handler
		kind   api.Kind
		hint   string
	}{
		{"no bucket", answer(404, "NoSuchBucket"), api.KindUnavailable, "create the bucket"},
		{"denied", answer(403, "AccessDenied"), api.KindDenied, "s3:PutObject"},
		{"wrong secret", answer(403, "SignatureDoesNotMatch"), api.KindDenied, "credentials"},
		{"overloaded", answer(503, "SlowDown"), api.KindUnavailable, "later"},
		{"moved", answer(301, "PermanentRedirect"), api.KindDenied, "redirects are refused"},
		{"no S3", answer(405, "MethodNotAllowed"), api.KindUnavailable, "endpoint"},
	} {
		err := archive.Archive{Blobs: at(t, archivetest.Server(t, c.around), Config{})}.Check(t.Context())
		if api.KindOf(err) != c.kind || !strings.Contains(api.HintOf(err), c.hint) {
			t.Errorf("%s: %v (%s), %q", c.name, err, api.KindOf(err), api.HintOf(err))
		}
		if text := err.Error(); strings.Contains(text, "secret-of") || len(text) > 1000 || strings.Contains(text, "\u009b") {
			t.Errorf("%s: %q", c.name, text)
		}
	}
	s := archivetest.Server(t, nil)
	s.Close()
	if err := (archive.Archive{Blobs: at(t, s, Config{})}).Check(t.Context()); api.KindOf(err) != api.KindUnavailable || !strings.Contains(api.HintOf(err), "endpoint") {
		t.Errorf("no server: %v, %q", err, api.HintOf(err))
	}
	s = archivetest.Server(t, nil)
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	if err := (archive.Archive{Blobs: at(t, s, Config{})}).Check(t.Context()); api.KindOf(err) != api.KindUnauthenticated || !strings.Contains(api.HintOf(err), "AWS_ACCESS_KEY_ID") {
		t.Errorf("no credentials: %v, %q", err, api.HintOf(err))
	}
}

// TestUploadMemory: an upload has one part in memory, however long it is.
func TestUploadMemory(t *testing.T) {
	var got atomic.Int64
	s := archivetest.Server(t, func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			n, _ := io.Copy(io.Discard, r.Body)
			got.Add(n)
			switch {
			case r.URL.Query().Has("uploads"):
				io.WriteString(w, "<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>")
			case r.Method == http.MethodPut:
				w.Header().Set("ETag", `"e"`)
			default:
				io.WriteString(w, "<CompleteMultipartUploadResult><Bucket>layers</Bucket><ETag>e</ETag></CompleteMultipartUploadResult>")
			}
		})
	})
	b := at(t, s, Config{})
	const size = 400 << 20
	var peak uint64
	read := 0
	r := readerFunc(func(p []byte) (int, error) {
		if read >= size {
			return 0, io.EOF
		}
		if read%(20<<20) == 0 {
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			peak = max(peak, m.HeapAlloc)
		}
		n := min(len(p), 1<<20)
		read += n
		return n, nil
	})
	var before runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	must(t, b.Put(t.Context(), "large", r))
	if got.Load() < size {
		t.Errorf("the server got %d bytes", got.Load())
	}
	used := int64(peak) - int64(before.HeapAlloc)
	t.Logf("%d MiB stored, at most %d KiB in memory", size>>20, used>>10)
	if used > 32<<20 {
		t.Errorf("%d bytes of memory for an upload in parts of %d", used, 5<<20)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
