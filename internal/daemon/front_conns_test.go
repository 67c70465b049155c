package daemon

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/server/front"
	wait "hortus.dev/test/patience"
)

// patience bounds the wait for what comes soon where nothing is broken.
var patience = wait.Of(time.Minute)

// listening is a daemon behind a TCP listener of its own.
func listening(t *testing.T, b front.Bounds) (*System, string) {
	t.Helper()
	dir := t.TempDir()
	withTemplate(t, Config{DataDir: dir})
	s, err := Open(t.Context(), Config{DataDir: dir, Pool: -1, Front: front.Config{Listen: "127.0.0.1:0", Bounds: b}})
	if err != nil {
		t.Fatal(err)
	}
	ln, _, err := front.Open(t.Context(), s.cfg.Front, s.guards.keys)
	if err != nil {
		t.Fatal(err)
	}
	srv := s.frontServer(s.httpServer(), func(net.Conn, http.ConnState) {})
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	t.Cleanup(func() {
		srv.Close()
		<-served
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return s, ln.Addr().String()
}

// reach opens a connection.
func reach(t *testing.T, addr string) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(patience))
	return c.(*net.TCPConn)
}

// healthy asks on a connection of its own whether the daemon serves.
func healthy(t *testing.T, addr string) {
	t.Helper()
	c := reach(t, addr)
	io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	if b, err := io.ReadAll(c); err != nil || !strings.HasPrefix(string(b), "HTTP/1.1 200 ") {
		t.Errorf("another client is answered %q, %v", b, err)
	}
}

// timedOut reports whether an error is that of this side's own patience.
func timedOut(err error) bool {
	ne, ok := err.(net.Error)
	return ok && ne.Timeout()
}

// TestSlowHead sends a head byte by byte, without an end.
func TestSlowHead(t *testing.T) {
	t.Parallel()
	_, addr := listening(t, front.Bounds{Head: 2 * time.Second})
	c := reach(t, addr)
	io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: x\r\nX: ")
	ended := make(chan string, 1)
	go func() {
		b, err := io.ReadAll(c)
		if timedOut(err) {
			b = []byte("nothing, for a minute")
		}
		ended <- string(b)
	}()
	healthy(t, addr)
	drip := time.NewTicker(5 * time.Millisecond)
	defer drip.Stop()
	for {
		select {
		case said := <-ended:
			if said != "" {
				t.Errorf("it is told %q", said)
			}
			return
		case <-drip.C:
			io.WriteString(c, "x") // until it is closed, which the reader sees
		}
	}
}

// TestSilence opens a connection and says nothing, or nothing after a first request.
func TestSilence(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		bounds front.Bounds
		first  string
	}{
		"at all":          {front.Bounds{Head: 50 * time.Millisecond}, ""},
		"after a request": {front.Bounds{Keep: 50 * time.Millisecond}, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"},
	} {
		_, addr := listening(t, tt.bounds)
		c := reach(t, addr)
		io.WriteString(c, tt.first)
		if b, err := io.ReadAll(c); timedOut(err) || strings.Contains(string(b), "HTTP/1.1 200") != (tt.first != "") {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
}

// TestBigHead sends heads of which one is too long.
func TestBigHead(t *testing.T) {
	t.Parallel()
	_, addr := listening(t, front.Bounds{})
	for size, want := range map[int]string{32 << 10: "HTTP/1.1 200 ", 96 << 10: "HTTP/1.1 431 ", 1 << 20: ""} {
		c := reach(t, addr)
		go func() {
			// It may be closed before all of it is sent.
			_, _ = fmt.Fprintf(c, "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX: %s\r\n\r\n", strings.Repeat("x", size))
		}()
		b, err := io.ReadAll(c)
		if timedOut(err) || want != "" && !strings.HasPrefix(string(b), want) || want == "" && strings.Contains(string(b), " 200 ") {
			t.Errorf("%d bytes: %.100q, %v", size, b, err)
		}
	}
}

// TestHalfBody sends a request that is refused, and not all of its body.
func TestHalfBody(t *testing.T) {
	t.Parallel()
	s, addr := listening(t, front.Bounds{Rest: 500 * time.Millisecond})
	id := api.NewSandboxID()
	var all sync.WaitGroup
	for name, head := range map[string]string{
		"/v1, no key":           "POST /v1/sandboxes HTTP/1.1\r\nHost: x\r\n",
		"/v1, a wrong key":      "POST /v1/sandboxes HTTP/1.1\r\nHost: x\r\nX-API-KEY: e2b_0000000000000000000000000000000000000000\r\n",
		"E2B's, no key":         "POST /v2/sandboxes HTTP/1.1\r\nHost: x\r\n",
		"a file, no token":      "POST /files?path=a HTTP/1.1\r\nHost: x\r\nE2b-Sandbox-Id: " + string(id) + "\r\n",
		"a file, of no sandbox": "POST /files?path=a HTTP/1.1\r\nHost: x\r\nE2b-Sandbox-Id: " + string(id) + "\r\nX-Access-Token: " + s.guards.tokens.Envd(string(id)) + "\r\n",
		"a port, of no sandbox": "POST / HTTP/1.1\r\nHost: 3000-" + string(id) + ".x\r\n",
		"a page of another":     "POST /v1/sandboxes HTTP/1.1\r\nHost: x\r\nOrigin: https://evil.example\r\n",
		"a path of nobody":      "POST /nothing HTTP/1.1\r\nHost: x\r\n",
	} {
		for coding, rest := range map[string]string{
			"a length": "Content-Length: 100\r\n\r\nhalf", "a long one": "Content-Length: 1000000000\r\n\r\nhalf", "chunks": "Transfer-Encoding: chunked\r\n\r\n100\r\nhalf",
		} {
			c := reach(t, addr)
			all.Go(func() {
				io.WriteString(c, head+rest)
				b, err := io.ReadAll(c)
				if timedOut(err) || !strings.HasPrefix(string(b), "HTTP/1.1 4") && !strings.HasPrefix(string(b), "HTTP/1.1 502 ") {
					t.Errorf("%s, %s: %q, %v", name, coding, b, err)
				}
			})
		}
	}
	all.Wait()
}

// TestUnreadAnswers asks without a key, and reads nothing.
func TestUnreadAnswers(t *testing.T) {
	t.Parallel()
	s, addr := listening(t, front.Bounds{Rest: 300 * time.Millisecond})
	// On a connection without any room every answer is left unread, a short one too.
	hall := &pipes{ends: make(chan net.Conn), closed: make(chan struct{})}
	srv := s.frontServer(s.httpServer(), func(net.Conn, http.ConnState) {})
	served := make(chan error, 1)
	go func() { served <- srv.Serve(hall) }()
	defer func() {
		srv.Close()
		<-served
	}()
	var all sync.WaitGroup
	for _, path := range []string{"/v1/sandboxes", "/sandboxes", "/v1/openapi.json", "/healthz", "/files?signature=v1_x&path=a", "/nothing"} {
		here, there := net.Pipe()
		hall.ends <- there
		all.Go(func() {
			defer here.Close()
			here.SetDeadline(time.Now().Add(patience))
			var err error
			for err == nil {
				_, err = io.WriteString(here, "GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n")
			}
			if timedOut(err) {
				t.Errorf("%s: the connection stays", path)
			}
		})
	}
	all.Wait()
	// On one of the network's it is the long ones.
	c := reach(t, addr)
	requests := strings.Repeat("GET /v1/openapi.json HTTP/1.1\r\nHost: x\r\n\r\n", 100)
	var err error
	for err == nil {
		_, err = io.WriteString(c, requests)
	}
	if timedOut(err) {
		t.Error("the connection stays")
	}
	healthy(t, addr)
}

// pipes is a listener whose connections hold nothing.
type pipes struct {
	ends   chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.ends:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

// TestFlood opens many connections and says nothing on them.
func TestFlood(t *testing.T) {
	t.Parallel()
	const room = 8
	_, addr := listening(t, front.Bounds{Conns: room})
	var all []net.Conn
	for n := range 8 * room {
		all = append(all, reach(t, addr))
		if n%room == 0 {
			healthy(t, addr)
		}
	}
	healthy(t, addr)
	// All but the last few were closed.
	for n, c := range all[:len(all)-room] {
		if _, err := io.ReadAll(c); timedOut(err) {
			t.Fatalf("connection %d is open", n)
		}
	}
}
