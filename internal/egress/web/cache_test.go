package web

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// TestCache has a cache answer, which is asked only about requests that were allowed and are for
// the target of their connection.
func TestCache(t *testing.T) {
	var asked atomic.Int64
	r := newRig(t, func(c *Config) {
		c.Cache = func(r *http.Request, g Grant, next http.RoundTripper) (*http.Response, error) {
			asked.Add(1)
			if g.Host != "example.org" || r.URL.Path == "/server" {
				return next.RoundTrip(r)
			}
			return &http.Response{StatusCode: 200, ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, ContentLength: 6, Body: io.NopCloser(strings.NewReader("cached")), Request: r}, nil
		}
	})
	r.https(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "server") }), "example.org")
	r.requests = func(_ Grant, _, path string) error {
		if path == "/denied" {
			return &Refusal{Reason: "denied by a rule"}
		}
		return nil
	}
	h1, h2 := r.h1(), r.client()
	for _, c := range []struct {
		path, host, body string
		asked            int64
	}{
		{"/cached", "example.org", "cached", 1},
		{"/server", "example.org", "server", 1},
		{"/server", "example.org", "server", 1}, // over the same connection
		{"/denied", "example.org", "denied by a rule", 0},
		{"/cached", "other.example.org", "is for the host", 0},
	} {
		for name, client := range map[string]*http.Client{"HTTP/1.1": h1, "HTTP/2": h2} {
			asked.Store(0)
			req, err := http.NewRequestWithContext(t.Context(), "GET", "https://example.org"+c.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Host = c.host
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			if got := body(t, resp); !strings.Contains(got, c.body) || asked.Load() != c.asked {
				t.Errorf("%s %s%s: %q, the cache was asked %d times", name, c.host, c.path, got, asked.Load())
			}
		}
	}
	r.server.Close() // all requests are recorded then
	hits := 0
	for _, e := range r.exchanges {
		if want := e.Path == "/cached" && e.Err == nil; e.Cached != want || want && (e.Status != 200 || e.Address != "") {
			t.Errorf("recorded %+v", e)
		}
		if e.Cached {
			hits++
		}
	}
	if hits != 2 || len(r.exchanges) != 10 {
		t.Errorf("%d hits in %d records", hits, len(r.exchanges))
	}
}
