package web

import (
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"hortus.dev/api"
)

// TestBroker has a broker answer, which gets requests that are allowed, and is notified of the
// others.
func TestBroker(t *testing.T) {
	var mu sync.Mutex
	var calls []string
	note := func(s string) {
		mu.Lock()
		defer mu.Unlock()
		calls = append(calls, s)
	}
	r := newRig(t, func(c *Config) {
		c.Cache = func(r *http.Request, _ Grant, next http.RoundTripper) (*http.Response, error) {
			note("cache")
			return next.RoundTrip(r)
		}
		c.Broker = func(r *http.Request, g Grant, next, direct http.RoundTripper) (*http.Response, error) {
			note("broker " + g.Host)
			switch r.URL.Path {
			case "/direct":
				out := r.Clone(r.Context())
				out.Header.Set("X-Added", "1")
				return direct.RoundTrip(out)
			case "/refused":
				return nil, &Refusal{Reason: "by the broker"}
			}
			return next.RoundTrip(r)
		}
		c.Refused = func(r *http.Request, _ Grant) { note("refused " + r.URL.Path) }
	})
	r.https(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { io.WriteString(w, "server "+req.Header.Get("X-Added")) }), "example.org")
	r.requests = func(_ Grant, _, path string) error {
		if path == "/denied" {
			return &Refusal{Reason: "denied by a rule"}
		}
		return nil
	}
	for _, c := range []struct{ path, host, body, calls string }{
		{"/", "example.org", "server ", "broker example.org, cache"},
		{"/direct", "example.org", "server 1", "broker example.org"},
		{"/refused", "example.org", "by the broker", "broker example.org"},
		{"/denied", "example.org", "denied by a rule", "refused /denied"},
		{"/other", "other.example.org", "is for the host", "refused /other"},
	} {
		for name, client := range map[string]*http.Client{"HTTP/1.1": r.h1(), "HTTP/2": r.client()} {
			calls = nil
			req, err := http.NewRequestWithContext(t.Context(), "GET", "https://example.org"+c.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Host = c.host
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			if got := body(t, resp); !strings.Contains(got, c.body) || strings.Join(calls, ", ") != c.calls {
				t.Errorf("%s %s: %q, %v", name, c.path, got, calls)
			}
		}
	}
}

// upper is a connection whose bytes are read in upper case.
type upper struct{ net.Conn }

func (u upper) Read(p []byte) (int, error) {
	n, err := u.Conn.Read(p)
	copy(p, strings.ToUpper(string(p[:n])))
	return n, err
}

// CloseWrite closes the sending half.
func (u upper) CloseWrite() error { return closeWrite(u.Conn) }

// TestWatch has the bytes of a client read that are not HTTP. Those of the server are not.
func TestWatch(t *testing.T) {
	r := newRig(t, func(c *Config) {
		c.Watch = func(c net.Conn, g Grant) net.Conn {
			if g.Port != 7 {
				return c
			}
			return upper{c}
		}
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { defer c.Close(); io.Copy(c, c) }()
		}
	}()
	for addr, want := range map[string]string{"echo.example.org:7": "TEXT", "echo.example.org:8": "text"} {
		r.addresses[addr], r.classes[addr] = l.Addr().String(), api.EgressTCP
		c, _ := r.open(addr)
		io.WriteString(c, "text")
		if err := closeWrite(c); err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(c); err != nil || string(b) != want {
			t.Errorf("%s: %q %v", addr, b, err)
		}
	}
}
