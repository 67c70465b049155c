package s3

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/storage/layer/archive"
	"hortus.dev/test/archivetest"
)

// restoreFrom restores from a server that answers each request for the archive with attack, after
// a record that it made itself.
func restoreFrom(t *testing.T, cfg Config, size int64, attack http.HandlerFunc) error {
	t.Helper()
	blob := archivetest.Name + "-0123456789abcdef.tar.zst"
	s := archivetest.Server(t, func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Last-Modified", "Mon, 02 Jan 2006 15:04:05 GMT")
			w.Header().Set("ETag", `"e"`)
			if strings.HasSuffix(r.URL.Path, ".json") {
				fmt.Fprintf(w, `{"blob":%q,"bytes":%d,"sha256":"0","files":%d,"entries":1000000}`, blob, size, int64(1)<<39)
				return
			}
			attack(w, r)
		})
	})
	err := archive.Archive{Blobs: at(t, s, cfg)}.Restore(t.Context(), archivetest.Name, t.TempDir())
	if err == nil {
		t.Error("it was restored")
	}
	return err
}

// TestTruncated: a stream that ends early is an error, with and without a stated size.
func TestTruncated(t *testing.T) {
	err := restoreFrom(t, Config{}, 1000, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		w.Write(make([]byte, 10))
	})
	if k := api.KindOf(err); k != api.KindUnavailable && k != api.KindInvalid {
		t.Error(err)
	}
	err = restoreFrom(t, Config{}, 1000, func(w http.ResponseWriter, _ *http.Request) {
		w.(http.Flusher).Flush()
		w.Write(make([]byte, 10))
	})
	if api.KindOf(err) != api.KindInvalid {
		t.Error(err)
	}
}

// TestEndless: an answer without end is given up at its limit, and takes no memory.
func TestEndless(t *testing.T) {
	var sent atomic.Int64
	endless := func(w http.ResponseWriter, _ *http.Request) {
		for p := make([]byte, 64<<10); ; {
			n, err := w.Write(p)
			if sent.Add(int64(n)); err != nil {
				return
			}
		}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := restoreFrom(t, Config{}, 1000, endless); api.KindOf(err) != api.KindInvalid {
		t.Errorf("an archive: %v", err)
	}
	s := archivetest.Server(t, func(http.Handler) http.Handler { return http.HandlerFunc(endless) })
	a := archive.Archive{Blobs: at(t, s, Config{})}
	if err := a.Restore(t.Context(), archivetest.Name, t.TempDir()); api.KindOf(err) == "" {
		t.Error("an endless record was accepted")
	}
	if _, err := a.Blobs.List(t.Context(), "", 10); err == nil {
		t.Error("an endless list was accepted")
	}
	if err := a.Check(t.Context()); err == nil {
		t.Error("a server that sends without end passes the check")
	}
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 256<<20 {
		t.Errorf("%d MiB were allocated, %d MiB sent", used>>20, sent.Load()>>20)
	} else {
		t.Logf("%d MiB were allocated, %d MiB sent", used>>20, sent.Load()>>20)
	}
}

// TestSlow: a server that does not answer, or sends a byte now and then, is given up. No time is
// measured: without the limits the test would not end.
func TestSlow(t *testing.T) {
	cfg := Config{Wait: 200 * time.Millisecond, Rate: 1 << 30}
	err := restoreFrom(t, cfg, 1000, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	if api.KindOf(err) != api.KindUnavailable {
		t.Errorf("no answer: %v", err)
	}
	const size = 1 << 30
	err = restoreFrom(t, cfg, size, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(size))
		// A zstd frame that begins with a skippable one, so that reading goes on.
		io.WriteString(w, "\x50\x2a\x4d\x18\xff\xff\xff\x3f")
		for tick := time.NewTicker(10 * time.Millisecond); ; {
			select {
			case <-tick.C:
				w.Write([]byte{0})
				w.(http.Flusher).Flush()
			case <-r.Context().Done():
				tick.Stop()
				return
			}
		}
	})
	if api.KindOf(err) != api.KindUnavailable {
		t.Errorf("drops: %v", err)
	}
}

// TestRedirects: no request follows a redirect, to another host or the same one, whatever it asks
// for. Credentials go to nobody else.
func TestRedirects(t *testing.T) {
	var asked atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer other.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		for _, to := range []string{other.URL, strings.Replace(other.URL, "127.0.0.1", "localhost", 1)} {
			s := archivetest.Server(t, func(http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("x-amz-bucket-region", "elsewhere")
					http.Redirect(w, r, to+r.URL.Path, status)
				})
			})
			b := at(t, s, Config{})
			a := archive.Archive{Blobs: b}
			for what, err := range map[string]error{
				"check": a.Check(t.Context()), "restore": a.Restore(t.Context(), archivetest.Name, t.TempDir()),
				"save": a.Save(t.Context(), archivetest.Name, archivetest.Tree(t)),
			} {
				if err == nil || api.KindOf(err) == api.KindNotFound {
					t.Errorf("%d, %s: %v", status, what, err)
				}
			}
		}
	}
	if n := asked.Load(); n > 0 {
		t.Errorf("another host got %d requests", n)
	}
	// Whoever asks for another host: the transport refuses it.
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, other.URL, nil)
	must(t, err)
	tr := &transport{base: http.DefaultTransport, scheme: "http", host: "here", wait: time.Minute, rate: 1}
	if resp, err := tr.RoundTrip(req); api.KindOf(err) != api.KindDenied {
		t.Errorf("%v, %v", resp, err)
	}
}
