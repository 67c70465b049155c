package daemon

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/daemon"
	"hortus.dev/internal/server/front"
	"hortus.dev/internal/server/token"
	"hortus.dev/test/patience"
	"hortus.dev/test/world"
)

// soon bounds the wait for what comes soon where nothing is broken.
var soon = patience.Of(time.Minute)

// listening is a daemon with bounds of its TCP listener, and the address of that.
func listening(t *testing.T, b front.Bounds) (w *world.World, addr string) {
	t.Helper()
	t.Parallel()
	w = world.Open(t, world.Config{Config: daemon.Config{Front: front.Config{Bounds: b}}})
	return w, strings.TrimPrefix(w.URL, "http://")
}

// tokens are those of a daemon's sandboxes.
func tokens(w *world.World) *token.Minter {
	m, err := token.Open(w.Dir.Path("tokens.key"))
	if err != nil {
		panic(err) // the daemon made it
	}
	return m
}

// reach opens a connection.
func reach(t *testing.T, addr string) *net.TCPConn {
	t.Helper()
	c := world.Must(net.Dial("tcp", addr))(t)
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(soon))
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
	_, addr := listening(t, front.Bounds{Head: 50 * time.Millisecond, Keep: 50 * time.Millisecond})
	for _, first := range []string{"", "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"} {
		c := reach(t, addr)
		io.WriteString(c, first)
		if b, err := io.ReadAll(c); timedOut(err) || strings.Contains(string(b), "HTTP/1.1 200") != (first != "") {
			t.Errorf("after %q: %q, %v", first, b, err)
		}
	}
}

// TestWithoutHost: checks of load balancers may be HTTP/1.0 without a Host, and nothing else may lack it.
func TestWithoutHost(t *testing.T) {
	_, addr := listening(t, front.Bounds{})
	for head, want := range map[string]string{
		"GET /healthz HTTP/1.0\r\n": " 200 ", "GET /healthz HTTP/1.1\r\n": " 400 ", "GET /metrics HTTP/1.0\r\n": " 400 ", "GET /v1/info HTTP/1.0\r\n": " 400 ",
		"GET / HTTP/1.0\r\n": " 400 ", "GET http://evil.example/healthz HTTP/1.0\r\n": " 400 ",
	} {
		c := reach(t, addr)
		io.WriteString(c, head+"\r\n")
		if b, err := io.ReadAll(c); err != nil || !strings.Contains(strings.SplitN(string(b), "\r\n", 2)[0], want) {
			t.Errorf("%q: %.200q, %v", head, b, err)
		}
	}
}

// TestBigHead sends heads of which one is too long.
func TestBigHead(t *testing.T) {
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

// TestHalfBody sends a request that is refused, and not all of its body. The server waits for the rest of the body before
// it sends some of the answers. It then has the same time again for sending, which must be enough on a busy machine.
func TestHalfBody(t *testing.T) {
	s, addr := listening(t, front.Bounds{Rest: patience.Of(4 * time.Second)})
	id := api.NewSandboxID()
	var all sync.WaitGroup
	for name, head := range map[string]string{
		"/v1, no key":           "POST /v1/sandboxes HTTP/1.1\r\nHost: x\r\n",
		"/v1, a wrong key":      "POST /v1/sandboxes HTTP/1.1\r\nHost: x\r\nX-API-KEY: e2b_0000000000000000000000000000000000000000\r\n",
		"E2B's, no key":         "POST /v2/sandboxes HTTP/1.1\r\nHost: x\r\n",
		"a file, no token":      "POST /files?path=a HTTP/1.1\r\nHost: x\r\nE2b-Sandbox-Id: " + string(id) + "\r\n",
		"a file, of no sandbox": "POST /files?path=a HTTP/1.1\r\nHost: x\r\nE2b-Sandbox-Id: " + string(id) + "\r\nX-Access-Token: " + tokens(s).Envd(string(id)) + "\r\n",
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

// TestUnreadAnswers asks without a key, again and again, and reads nothing: short answers too fill what the network holds.
func TestUnreadAnswers(t *testing.T) {
	_, addr := listening(t, front.Bounds{Rest: 300 * time.Millisecond})
	var all sync.WaitGroup
	for _, path := range []string{"/v1/sandboxes", "/sandboxes", "/v1/openapi.json", "/healthz", "/files?signature=v1_x&path=a", "/nothing"} {
		c := reach(t, addr)
		all.Go(func() {
			requests := strings.Repeat("GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n", 100)
			var err error
			for err == nil {
				_, err = io.WriteString(c, requests)
			}
			if timedOut(err) {
				t.Errorf("%s: the connection stays", path)
			}
		})
	}
	all.Wait()
	healthy(t, addr)
}

// TestFlood opens many connections and says nothing on them.
func TestFlood(t *testing.T) {
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
