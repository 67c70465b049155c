package http_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"hortus.dev/api"
)

// ask sends a request for /health of the sandbox, raw, and gives everything that
// comes back on the connection.
func ask(t *testing.T, f *fakes, path string) (*http.Response, string, error) {
	t.Helper()
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET /v1/sandboxes/"+string(f.id)+"/envd/health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	// A hostile guest must not make this test large either.
	b, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return resp, string(b), err
}

// request reads the request that a guest gets, so that the pipe does not block.
func request(c net.Conn) *http.Request {
	r, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil {
		return nil
	}
	return r
}

func TestProxyPassesAnswersOn(t *testing.T) {
	var got atomic.Pointer[http.Request]
	f := &fakes{guest: func(c net.Conn) {
		got.Store(request(c))
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nSet-Cookie: a=b\r\nX-Evil: 1\r\nConnection: X-Evil\r\nContent-Length: 2\r\n\r\nok")
	}}
	_, path := serve(t, f)
	resp, body, err := ask(t, f, path)
	if err != nil || resp.StatusCode != 200 || body != "ok" {
		t.Fatalf("%v, %q, %v", resp, body, err)
	}
	for _, h := range []string{"Set-Cookie", "X-Evil"} {
		if v := resp.Header.Get(h); v != "" {
			t.Errorf("header %s: %q reached the client", h, v)
		}
	}
	if r := got.Load(); r == nil || r.URL.Path != "/health" {
		t.Errorf("the guest was asked for %+v", r)
	}
}

// TestHostileGuest plays guests that break the wire. No client may see anything
// but an error of the server's own, or a body that is visibly cut.
func TestHostileGuest(t *testing.T) {
	say := func(s string) func(net.Conn) {
		return func(c net.Conn) { request(c); io.WriteString(c, s) }
	}
	for name, guest := range map[string]func(net.Conn){
		"silence, then the end": func(c net.Conn) { request(c) },
		"garbage":               say("\x00\xff\xfe not http at all\r\n\r\n"),
		"garbage status":        say("HTTP/1.1 9999 what\r\n\r\n"),
		"oversized header":      say("HTTP/1.1 200 OK\r\nContent-Type: " + strings.Repeat("x", 200<<10) + "\r\n\r\n"),
		"many headers":          say("HTTP/1.1 200 OK\r\n" + strings.Repeat("A: b\r\n", 100_000) + "\r\n"),
		"broken header name":    say("HTTP/1.1 200 OK\r\nBad Name: x\r\n\r\n"),
		"upgrade":               say("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\nraw bytes"),
		"redirect":              say("HTTP/1.1 302 Found\r\nLocation: http://evil/\r\nContent-Length: 0\r\n\r\n"),
		"two lengths":           say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc"),
		"negative length":       say("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"),
		"unknown coding":        say("HTTP/1.1 200 OK\r\nTransfer-Encoding: evil\r\n\r\n"),
	} {
		t.Run(name, func(t *testing.T) {
			f := &fakes{guest: guest}
			_, path := serve(t, f)
			resp, body, err := ask(t, f, path)
			if err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != http.StatusBadGateway || !strings.Contains(body, `"kind":"unavailable"`) {
				t.Errorf("answered %d %.200q; want 502 with an error of the server's", resp.StatusCode, body)
			}
			if ct := resp.Header.Get("Content-Type"); ct != "application/problem+json" {
				t.Errorf("content type %q", ct)
			}
		})
	}
}

func TestGuestCutsItsBody(t *testing.T) {
	for name, answer := range map[string]string{
		"short":      "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc",
		"bad chunk":  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nZZ\r\n",
		"open chunk": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			f := &fakes{guest: func(c net.Conn) { request(c); io.WriteString(c, answer) }}
			_, path := serve(t, f)
			if _, body, err := ask(t, f, path); err == nil {
				t.Errorf("%q was taken for a whole answer", body)
			}
		})
	}
}

// TestSplittingStaysInside sends an answer with a second one behind it.
func TestSplittingStaysInside(t *testing.T) {
	f := &fakes{guest: func(c net.Conn) {
		request(c)
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
	}}
	c, path := serve(t, f)
	if resp, body, err := ask(t, f, path); err != nil || resp.StatusCode != 200 || body != "ok" {
		t.Errorf("%v, %q, %v", resp, body, err)
	}
	if info, err := c.Info(t.Context()); err != nil || info.PID != 42 {
		t.Errorf("the next answer was %+v, %v", info, err)
	}
}

// TestEndlessHeads counts what a guest gets rid of before it is cut off.
func TestEndlessHeads(t *testing.T) {
	const bound = 4 << 20
	for name, piece := range map[string]string{
		"headers":       "A: bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\r\n",
		"interim heads": "\r\nHTTP/1.1 103 Early Hints\r\nSet-Cookie: evil=1\r\n",
		"one line":      "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
	} {
		t.Run(name, func(t *testing.T) {
			var written atomic.Int64
			f := &fakes{guest: func(c net.Conn) {
				request(c)
				if name == "interim heads" {
					io.WriteString(c, "HTTP/1.1 103 Early Hints\r\nA: b\r\n")
				} else {
					io.WriteString(c, "HTTP/1.1 200 OK\r\nB: ")
				}
				for p := strings.Repeat(piece, 64); written.Load() < 2*bound; {
					n, err := io.WriteString(c, p)
					written.Add(int64(n))
					if err != nil {
						return
					}
				}
			}}
			_, path := serve(t, f)
			resp, body, err := ask(t, f, path)
			if err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != http.StatusBadGateway || strings.Contains(body, "evil") || resp.Header.Get("Set-Cookie") != "" {
				t.Errorf("answered %d %v %.200q", resp.StatusCode, resp.Header, body)
			}
			f.wg.Wait()
			if n := written.Load(); n >= bound {
				t.Errorf("the guest sent %d bytes of head before it was cut off", n)
			}
		})
	}
}

// TestSilentGuestEndsWithItsClient: a guest that never answers is cut off by the
// client's own end, and harms nobody else meanwhile.
func TestSilentGuestEndsWithItsClient(t *testing.T) {
	asked, ended := make(chan struct{}), make(chan struct{})
	f := &fakes{guest: func(c net.Conn) {
		defer close(ended)
		request(c)
		close(asked)
		io.Copy(io.Discard, c) // until the server hangs up
	}}
	c, _ := serve(t, f)
	s, err := c.Sandboxes.Get(t.Context(), string(f.id))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- s.Guest().Health(ctx) }()
	<-asked
	if _, err := c.Info(t.Context()); err != nil {
		t.Errorf("another call meanwhile: %v", err)
	}
	cancel()
	if err := <-result; api.KindOf(err) != api.KindCanceled {
		t.Errorf("Health: %v", err)
	}
	<-ended
}

// TestPathsOfTheHost requests what is between a guest and its host.
func TestPathsOfTheHost(t *testing.T) {
	f := &fakes{guest: func(c net.Conn) {
		if r := request(c); r != nil {
			t.Errorf("the guest received %s", r.URL)
		}
	}}
	_, path := serve(t, f)
	for _, target := range []string{"/hortus/trust", "/hortus/reach", "/hortus/accept", "/hortus/port?port=22", "/%68ortus/trust", "/hortus%2ftrust", "/hortus/"} {
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		io.WriteString(conn, "PUT /v1/sandboxes/"+string(f.id)+"/envd"+target+" HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp.Body.Close(); resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s: status %d; want 404", target, resp.StatusCode)
		}
	}
}
