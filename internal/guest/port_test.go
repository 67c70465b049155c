//go:build linux

package guest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"hortus.dev/api/envd"
	"hortus.dev/test/patience"
)

// openPort requests a stream to a port from the guest, which shares the network of these
// tests.
func (g *guestProc) openPort(t testing.TB, port int) (net.Conn, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience.Of(time.Minute))
	defer cancel()
	c, err := g.dial(ctx)
	if err != nil {
		t.Fatal(err)
	}
	s, err := envd.OpenPort(ctx, c, envd.PortPath(port), nil)
	if err == nil {
		s.SetDeadline(time.Now().Add(time.Minute))
		t.Cleanup(func() { s.Close() })
	}
	return s, err
}

// listen serves each connection to a port of one family.
func listen(t testing.TB, addr string, serve func(*net.TCPConn)) int {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Skipf("listen on %s: %v", addr, err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				serve(c.(*net.TCPConn))
			}()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return l.Addr().(*net.TCPAddr).Port
}

func TestPort(t *testing.T) {
	g := startGuest(t, guestOptions{})
	for _, addr := range []string{"127.0.0.1:0", "[::1]:0"} {
		t.Run(addr, func(t *testing.T) {
			// The server answers only after all input came: a half-close is forwarded.
			port := listen(t, addr, func(c *net.TCPConn) {
				b, _ := io.ReadAll(c)
				c.Write(bytes.ToUpper(b))
			})
			s, err := g.openPort(t, port)
			if err != nil {
				t.Fatal(err)
			}
			sent := strings.Repeat("words ", 200_000)
			go func() {
				io.WriteString(s, sent)
				s.(interface{ CloseWrite() error }).CloseWrite()
			}()
			got, err := io.ReadAll(s)
			if err != nil || string(got) != strings.ToUpper(sent) {
				t.Errorf("%d bytes came back of %d, %v", len(got), len(sent), err)
			}
		})
	}
}

// TestPortSpeaksFirst: what a server sends before it receives anything is not lost behind
// the guest's own answer.
func TestPortSpeaksFirst(t *testing.T) {
	g := startGuest(t, guestOptions{})
	port := listen(t, "127.0.0.1:0", func(c *net.TCPConn) { io.WriteString(c, "220 hello"); io.Copy(io.Discard, c) })
	s, err := g.openPort(t, port)
	if err != nil {
		t.Fatal(err)
	}
	var b [9]byte
	if _, err := io.ReadFull(s, b[:]); err != nil || string(b[:]) != "220 hello" {
		t.Errorf("%q, %v", b, err)
	}
}

func TestPortClosed(t *testing.T) {
	g := startGuest(t, guestOptions{})
	port := listen(t, "127.0.0.1:0", func(*net.TCPConn) {})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := l.Addr().(*net.TCPAddr).Port
	l.Close()
	var refused *envd.Refused
	if _, err := g.openPort(t, closed); !errors.As(err, &refused) || refused.Status != 502 {
		t.Errorf("a closed port: %v", err)
	}
	for _, q := range []string{"", "?port=0", "?port=65536", "?port=-1", "?port=%2b80", "?port=080", "?port=x"} {
		c, err := g.dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := envd.OpenPort(t.Context(), c, envd.PathPort+q, nil); !errors.As(err, &refused) || refused.Status != 400 {
			t.Errorf("%q: %v", q, err)
		}
	}
	c, err := g.dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, "GET "+envd.PortPath(port)+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	if b, _ := io.ReadAll(c); !strings.HasPrefix(string(b), "HTTP/1.1 426 ") {
		t.Errorf("without asking for a stream: %q", b)
	}
}

// TestPortEndsWithEitherSide: when the client or the server leaves, the other side's
// connection ends too.
func TestPortEndsWithEitherSide(t *testing.T) {
	g := startGuest(t, guestOptions{})
	ended := make(chan struct{}, 1)
	port := listen(t, "127.0.0.1:0", func(c *net.TCPConn) {
		io.WriteString(c, "x")
		io.Copy(io.Discard, c)
		// The client's end is that of its half alone, until it is seen to have left.
		c.SetDeadline(time.Now().Add(time.Minute))
		for {
			if _, err := c.Write([]byte("x")); err != nil {
				ended <- struct{}{}
				return
			}
		}
	})
	s, err := g.openPort(t, port)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(s, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	s.Close()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("the server was not told that its client left")
	}
	port = listen(t, "127.0.0.1:0", func(c *net.TCPConn) {
		c.Read(make([]byte, 1))
		c.SetLinger(0) // a reset
	})
	s, err = g.openPort(t, port)
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(s, "x")
	if n, _ := io.Copy(io.Discard, s); n != 0 {
		t.Errorf("%d bytes from a server that left", n)
	}
	g.mustRun(t, "true") // the guest serves on
}
