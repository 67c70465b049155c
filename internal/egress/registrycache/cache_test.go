package registrycache

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/blake2b"

	"hortus.dev/internal/storage/space"
	"hortus.dev/test/patience"
)

const tarball = "/left-pad/-/left-pad-1.3.0.tgz"

type zoneKey struct{}

// rig is a registry and a cache in front of it.
type rig struct {
	*Cache
	t       *testing.T
	cfg     Config
	server  *httptest.Server
	fetched atomic.Int64
	serve   atomic.Pointer[http.HandlerFunc]
}

func newRig(t *testing.T, change func(*Config)) *rig {
	g := &rig{t: t}
	g.handle(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Etag", `"1"`)
		fmt.Fprint(w, "content of ", r.URL.Path)
	})
	g.server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.fetched.Add(1)
		(*g.serve.Load())(w, r)
	}))
	t.Cleanup(g.server.Close)
	g.cfg = Config{
		Dir: filepath.Join(t.TempDir(), "cache"),
	}
	if change != nil {
		change(&g.cfg)
	}
	g.open()
	t.Cleanup(func() { g.Cache.Close() })
	return g
}

// open opens the cache again, as the next run of a daemon does.
func (g *rig) open() {
	g.t.Helper()
	if g.Cache != nil {
		g.Cache.Close()
	}
	c, err := New(g.cfg)
	if err != nil {
		g.t.Fatal(err)
	}
	g.Cache = c
}

func (g *rig) handle(h http.HandlerFunc) { g.serve.Store(&h) }

func (g *rig) request(zone, path string) *http.Request {
	ctx := context.WithValue(g.t.Context(), zoneKey{}, zone)
	r, err := http.NewRequestWithContext(ctx, "GET", g.server.URL+path, nil)
	if err != nil {
		g.t.Fatal(err)
	}
	return r
}

// RoundTrip requests in the zone of the context.
func (g *rig) RoundTrip(r *http.Request) (*http.Response, error) {
	zone, _ := r.Context().Value(zoneKey{}).(string)
	return g.Cache.RoundTrip(r, zone, g.server.Client().Transport)
}

func (g *rig) do(r *http.Request) (string, *http.Response, error) {
	resp, err := g.RoundTrip(r)
	if err != nil {
		return "", nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return string(b), resp, err
}

// get requests a path and returns the body.
func (g *rig) get(zone, path string) string {
	g.t.Helper()
	body, _, err := g.do(g.request(zone, path))
	if err != nil {
		g.t.Errorf("%s: %v", path, err)
	}
	return body
}

// fetches checks how many requests the registry got since the last call.
func (g *rig) fetches(what string, want int64) {
	g.t.Helper()
	if got := g.fetched.Swap(0); got != want {
		g.t.Errorf("%s: the registry got %d requests, want %d", what, got, want)
	}
}

func TestHit(t *testing.T) {
	g := newRig(t, nil)
	head := g.request("a", tarball)
	head.Method = "HEAD"
	if _, resp, err := g.do(head); err != nil || resp.StatusCode != 200 {
		t.Errorf("HEAD before: %v", err)
	}
	g.fetches("HEAD before", 1)
	for range 3 {
		if got := g.get("a", tarball); got != "content of "+tarball {
			t.Errorf("got %q", got)
		}
	}
	g.fetches("three requests", 1)
	r := g.request("a", tarball)
	r.Method = "HEAD"
	_, resp, err := g.do(r)
	if err != nil || resp.StatusCode != 200 || resp.ContentLength != int64(len("content of "+tarball)) || resp.Header.Get("Etag") != `"1"` || resp.Header.Get("Content-Type") != "application/octet-stream" {
		t.Errorf("HEAD: %+v, %v", resp, err)
	}
	// A new run has it, and a write through a client works.
	g.open()
	resp, err = (&http.Client{Transport: zoned{g, "a"}}).Get(g.server.URL + tarball)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(resp.Body)
	if resp.Body.Close(); err != nil || string(b) != "content of "+tarball {
		t.Errorf("after a restart %q, %v", b, err)
	}
	g.fetches("after a restart", 0)
	// Another zone fetches it itself; the content is stored once.
	g.get("b", tarball)
	g.fetches("another zone", 1)
	if s := g.Stats(); s.Hits != 1 || s.Misses != 1 || s.Damaged != 0 || s.Bytes != int64(len("content of "+tarball)) {
		t.Errorf("%+v", s)
	}
	g.get("", tarball)
	g.get("", tarball)
	g.fetches("no zone", 2)
}

type zoned struct {
	g    *rig
	zone string
}

func (z zoned) RoundTrip(r *http.Request) (*http.Response, error) {
	return z.g.RoundTrip(r.WithContext(context.WithValue(r.Context(), zoneKey{}, z.zone)))
}

// A download that ends early is an error for its reader, and is not stored.
func TestTruncated(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"with a length": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			fmt.Fprint(w, "half")
		},
		"chunked": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "half")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, nil)
			good := *g.serve.Load()
			g.handle(h)
			if body, _, err := g.do(g.request("a", tarball)); err == nil {
				t.Errorf("%d bytes without an error", len(body))
			}
			g.handle(good)
			if got := g.get("a", tarball); got != "content of "+tarball {
				t.Errorf("afterwards %q", got)
			}
			g.fetches(name, 2)
			g.Cache.Close()
			left, _ := os.ReadDir(filepath.Join(g.cfg.Dir, "partial"))
			if len(left) != 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

// A file that was changed on disk is found out, and fetched again.
func TestPoisoned(t *testing.T) {
	for name, poison := range map[string]func(path string) error{
		"same size": func(path string) error {
			return os.WriteFile(path, bytes.Repeat([]byte("x"), len("content of "+tarball)), 0o600)
		},
		"longer": func(path string) error {
			f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
			f.Write([]byte("x"))
			f.Close()
			return err
		},
		"truncated": func(path string) error { return os.Truncate(path, 3) },
		"removed":   os.Remove,
	} {
		for _, restart := range []bool{false, true} {
			t.Run(fmt.Sprint(name, restart), func(t *testing.T) {
				g := newRig(t, nil)
				g.get("a", tarball)
				g.get("b", tarball)
				objects, _ := filepath.Glob(filepath.Join(g.cfg.Dir, "objects", "*"))
				if len(objects) != 1 {
					t.Fatalf("objects %v", objects)
				}
				if err := poison(objects[0]); err != nil {
					t.Fatal(err)
				}
				if restart {
					g.open()
				}
				g.fetches("before", 2)
				for _, zone := range []string{"a", "b", "a", "b"} {
					if got := g.get(zone, tarball); got != "content of "+tarball {
						t.Errorf("got %q", got)
					}
				}
				g.fetches("after", 2)
			})
		}
	}
	t.Run("entries", func(t *testing.T) {
		g := newRig(t, nil)
		g.get("a", tarball)
		entries, _ := filepath.Glob(filepath.Join(g.cfg.Dir, "entries", "*"))
		for _, bad := range []string{"", "{}", `{"key":"../x","sha256":"../../x","size":1}`, "[" + strings.Repeat("[", 1<<16)} {
			if err := os.WriteFile(entries[0], []byte(bad), 0o600); err != nil {
				t.Fatal(err)
			}
			g.open()
			g.fetched.Store(0)
			g.get("a", tarball)
			g.fetches(bad[:min(len(bad), 20)], 1)
		}
	})
}

func TestDigest(t *testing.T) {
	g := newRig(t, nil)
	good := []byte("a wheel")
	sum := blake2b.Sum256(good)
	h := hex.EncodeToString(sum[:])
	path := "/packages/" + h[:2] + "/" + h[2:4] + "/" + h[4:] + "/x-1.0.whl"
	body := []byte("not that wheel")
	g.handle(func(w http.ResponseWriter, _ *http.Request) { w.Write(body) })
	g.get("a", path)
	body = good
	for range 2 {
		if got := g.get("a", path); got != string(good) {
			t.Errorf("got %q", got)
		}
	}
	g.fetches("a wrong file, a right one, a hit", 2)
}

// Requests at the same time fetch once, read while it comes, and survive the first of them.
func TestShared(t *testing.T) {
	g := newRig(t, nil)
	resume := make(chan struct{})
	g.handle(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "10")
		fmt.Fprint(w, "01234")
		w.(http.Flusher).Flush()
		<-resume
		fmt.Fprint(w, "56789")
	})
	r := g.request("a", tarball)
	ctx, cancel := context.WithCancel(r.Context())
	first, err := g.RoundTrip(r.WithContext(ctx))
	if err != nil {
		t.Fatal(err)
	}
	half := make([]byte, 5)
	if _, err := io.ReadFull(first.Body, half); err != nil || string(half) != "01234" {
		t.Fatalf("%q, %v", half, err)
	}
	var others []*http.Response
	for range 10 {
		resp, err := g.RoundTrip(g.request("a", tarball))
		if err != nil {
			t.Fatal(err)
		}
		others = append(others, resp)
	}
	cancel()
	first.Body.Close()
	close(resume)
	for _, resp := range others {
		b, err := io.ReadAll(resp.Body)
		if resp.Body.Close(); err != nil || string(b) != "0123456789" {
			t.Errorf("%q, %v", b, err)
		}
	}
	g.get("a", tarball)
	g.fetches("shared", 1)
	if s := g.Stats(); s.Hits != 11 || s.Misses != 1 {
		t.Errorf("%+v", s)
	}
}

// When all readers have left, the download ends.
func TestAbandoned(t *testing.T) {
	g := newRig(t, nil)
	ended := make(chan struct{})
	g.handle(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "10")
		fmt.Fprint(w, "01234")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		close(ended)
	})
	resp, err := g.RoundTrip(g.request("a", tarball))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	select {
	case <-ended:
	case <-time.After(patience.Of(30 * time.Second)):
		t.Fatal("the download continues")
	}
	// So it does at Close, with a reader.
	ended = make(chan struct{})
	if resp, err = g.RoundTrip(g.request("b", tarball)); err != nil {
		t.Fatal(err)
	}
	g.Cache.Close()
	<-ended
	if _, err := io.ReadAll(resp.Body); err == nil {
		t.Error("a download that Close ended is whole")
	}
	resp.Body.Close()
}

func TestEviction(t *testing.T) {
	g := newRig(t, func(c *Config) { c.MaxBytes = 3500 })
	g.handle(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "%-1000s", r.URL.Path) })
	path := func(i int) string { return fmt.Sprintf("/p/-/p-%d.tgz", i) }
	for i := range 3 {
		g.get("a", path(i))
	}
	g.get("a", path(0)) // now 1 is the one to go
	g.get("a", path(3))
	g.fetches("filled", 4)
	g.get("a", path(0))
	g.get("a", path(2))
	g.get("a", path(3))
	g.fetches("kept", 0)
	g.get("a", path(1))
	g.fetches("evicted", 1)
	if s := g.Stats(); s.Bytes != 3000 || s.Evicted != 2 {
		t.Errorf("%+v", s)
	}
	objects, _ := os.ReadDir(filepath.Join(g.cfg.Dir, "objects"))
	entries, _ := os.ReadDir(filepath.Join(g.cfg.Dir, "entries"))
	if len(objects) != 3 || len(entries) != 3 {
		t.Errorf("%d objects, %d entries", len(objects), len(entries))
	}
	g.cfg.MaxBytes = 1500
	g.open()
	if _, _, err := g.Collect(t.Context(), time.Time{}, true); err != nil {
		t.Error(err)
	}
	if s := g.Stats(); s.Bytes != 1000 {
		t.Errorf("with a smaller limit %+v", s)
	}
}

func TestConcurrent(t *testing.T) {
	g := newRig(t, func(c *Config) { c.MaxBytes = 20_000 })
	g.handle(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "%-1000s", r.URL.Path) })
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 100 {
				path := fmt.Sprintf("/p/-/p-%d.tgz", (i*7+w)%40)
				if got := g.get([]string{"a", "b"}[w%2], path); strings.TrimSpace(got) != path {
					t.Errorf("%s: %q", path, got)
				}
			}
		})
	}
	wg.Wait()
	if s := g.Stats(); s.Bytes > 20_000 || s.Hits == 0 {
		t.Errorf("%+v", s)
	}
}

// TestCollect removes what was not used for a while.
func TestCollect(t *testing.T) {
	g := newRig(t, nil)
	g.get("a", tarball)
	g.get("b", tarball)
	g.get("a", "/p/-/p-1.tgz")
	size := g.Stats().Bytes
	for _, c := range []struct {
		before  time.Time
		dry     bool
		entries int
		bytes   int64
	}{
		{time.Now().Add(-time.Hour), false, 0, 0},
		{time.Now().Add(time.Hour), true, 3, size},
		{time.Now().Add(time.Hour), false, 3, size},
		{time.Now().Add(time.Hour), false, 0, 0},
	} {
		n, bytes, err := g.Collect(t.Context(), c.before, c.dry)
		if err != nil || n != c.entries || bytes != c.bytes {
			t.Errorf("%+v: %d entries, %d bytes, %v", c, n, bytes, err)
		}
	}
	if s := g.Stats(); s.Bytes != 0 {
		t.Errorf("afterwards %d bytes", s.Bytes)
	}
}

// TestEnded reads a hit whose request has ended, as when a policy no longer allows it.
func TestEnded(t *testing.T) {
	g := newRig(t, nil)
	g.get("a", tarball)
	r := g.request("a", tarball)
	ctx, cancel := context.WithCancel(r.Context())
	resp, err := g.RoundTrip(r.WithContext(ctx))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	cancel()
	if b, err := io.ReadAll(resp.Body); err == nil {
		t.Errorf("read %q", b)
	}
	if resp, err := g.RoundTrip(r.WithContext(ctx)); err == nil {
		resp.Body.Close()
		t.Error("a request that has ended is answered")
	}
	g.fetches("a request that has ended", 1)
}

// TestPassesOn forwards what is no artifact without any other work, also an allocation.
func TestPassesOn(t *testing.T) {
	g := newRig(t, nil)
	for _, path := range []string{"/", "/v1/messages", "/left-pad", "/simple/x/", "/debian/dists/stable/InRelease"} {
		r := g.request("a", path)
		if n := testing.AllocsPerRun(100, func() { _, _ = g.Cache.RoundTrip(r, "a", nowhere{}) }); n != 0 {
			t.Errorf("%s: %v allocations", path, n)
		}
	}
	if _, err := os.Stat(g.cfg.Dir); !os.IsNotExist(err) {
		t.Errorf("the directory was touched: %v", err)
	}
}

// nowhere answers nothing.
type nowhere struct{}

// RoundTrip implements http.RoundTripper.
func (nowhere) RoundTrip(*http.Request) (*http.Response, error) { return nil, io.EOF }

// TestFloor: below the floor of the disk nothing is stored, and what is there still answers.
func TestFloor(t *testing.T) {
	g := newRig(t, nil)
	g.get("a", tarball)
	g.fetches("above the floor", 1)
	g.cfg.Space = space.New(space.Config{Dir: g.cfg.Dir, FloorBytes: 1 << 62})
	g.open()
	const other = "/left-pad/-/left-pad-1.3.1.tgz"
	for range 2 {
		if got := g.get("a", tarball) + g.get("a", other); got != "content of "+tarball+"content of "+other {
			t.Errorf("got %q", got)
		}
	}
	g.fetches("below the floor", 2)
}
