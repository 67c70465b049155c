package envd

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
)

// answering is a connection whose other end reads a request and says something.
func answering(t testing.TB, say string) (net.Conn, func() *http.Request) {
	here, there := net.Pipe()
	got := make(chan *http.Request, 1)
	go func() {
		defer there.Close()
		r, _ := http.ReadRequest(bufio.NewReader(there))
		got <- r
		io.WriteString(there, say)
	}()
	t.Cleanup(func() { here.Close() })
	return here, func() *http.Request { return <-got }
}

func TestOpenPort(t *testing.T) {
	c, asked := answering(t, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: hortus-port\r\n\r\nfirst words")
	s, err := OpenPort(t.Context(), c, PortPath(80), http.Header{"Authorization": {"Bearer x"}})
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(s); err != nil || string(b) != "first words" {
		t.Errorf("%q, %v", b, err)
	}
	r := asked()
	if r.RequestURI != "/hortus/port?port=80" || r.Header.Get("Upgrade") != PortProtocol || r.Header.Get("Authorization") != "Bearer x" {
		t.Errorf("asked %+v", r)
	}
	for say, status := range map[string]int{
		"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 2\r\n\r\n{}":                      502,
		"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n":                                 200,
		"HTTP/1.1 101 Switching Protocols\r\nUpgrade: other\r\n\r\n":                   0,
		"HTTP/1.1 101 Switching Protocols\r\n\r\n":                                     0,
		"HTTP/1.1 101 X\r\nUpgrade: hortus-port\r\nA: " + strings.Repeat("x", 100_000): 0,
		"nonsense\r\n\r\n": 0,
		"":                 0,
	} {
		c, _ := answering(t, say)
		_, err := OpenPort(t.Context(), c, PortPath(80), nil)
		var refused *Refused
		if got := errors.As(err, &refused); err == nil || got != (status != 0) || got && refused.Status != status {
			t.Errorf("%.60q: %v", say, err)
		}
		if _, err := c.Write([]byte("x")); err == nil {
			t.Errorf("%.60q: the connection was left open", say)
		}
	}
	c, _ = answering(t, "")
	for _, path := range []string{"/a b", "/a\r\nX: y", "/\x00"} {
		if _, err := OpenPort(t.Context(), c, path, nil); api.KindOf(err) != api.KindInvalid {
			t.Errorf("%q: %v", path, err)
		}
	}
}

// TestOpenPortIsBounded: who answers nothing is not waited for beyond the context.
func TestOpenPortIsBounded(t *testing.T) {
	here, there := net.Pipe()
	defer there.Close()
	go io.Copy(io.Discard, there)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := OpenPort(ctx, here, PortPath(80), nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

func TestParsePort(t *testing.T) {
	for s, want := range map[string]int{
		"1": 1, "80": 80, "65535": 65535, "0": 0, "": 0, "65536": 0, "-1": 0, "+80": 0, "080": 0, "8 0": 0, "0x50": 0, "8_0": 0, "99999999999999999999": 0,
	} {
		if n, ok := ParsePort(s); ok != (want != 0) || ok && n != want {
			t.Errorf("%q: %d, %v", s, n, ok)
		}
	}
}

// FuzzOpenPort reads what a guest answers to who asks for a port.
func FuzzOpenPort(f *testing.F) {
	f.Add("HTTP/1.1 101 Switching Protocols\r\nUpgrade: hortus-port\r\n\r\nx")
	f.Add("HTTP/1.1 502 Bad Gateway\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab")
	f.Fuzz(func(t *testing.T, say string) {
		c, _ := answering(t, say)
		s, err := OpenPort(t.Context(), c, PortPath(1), nil)
		if err == nil {
			b, _ := io.ReadAll(s)
			if !strings.HasSuffix(say, string(b)) {
				t.Errorf("%q of %q", b, say)
			}
		}
	})
}
