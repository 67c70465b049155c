package link

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
)

// guest answers requests on a socket. answer returns false to end the connection.
func guest(t testing.TB, answer func(c net.Conn, req *http.Request) bool) *Link {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				req, err := http.ReadRequest(bufio.NewReader(c))
				if err == nil && answer(c, req) {
					io.Copy(io.Discard, c)
				}
			}()
		}
	}()
	link := New(path, 0)
	t.Cleanup(func() { link.Close() })
	return link
}

const switching = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: hortus-accept\r\n\r\n"

func TestAccept(t *testing.T) {
	requests := make(chan string, 1)
	l := guest(t, func(c net.Conn, req *http.Request) bool {
		requests <- req.URL.Path
		io.WriteString(c, switching+"hello")
		return false
	})
	c, err := l.Accept(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(c); err != nil || string(got) != "hello" || <-requests != "/hortus/accept" {
		t.Errorf("%q, %v", got, err)
	}
	c.Close()
	if len(l.streams) != 0 {
		t.Errorf("%d streams are counted after the end of the only one", len(l.streams))
	}
}

// TestAcceptHostileGuest checks that answers which are no stream do not end the wait, and that
// none of them is read without bound.
func TestAcceptHostileGuest(t *testing.T) {
	answers := []string{
		"", "nonsense\r\n\r\n", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: other\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
		"HTTP/1.1 101 X\r\nUpgrade: hortus-accept\r\nA: " + strings.Repeat("x", 1<<20), switching + "at last",
	}
	tries := make(chan string, len(answers))
	for _, a := range answers {
		tries <- a
	}
	l := guest(t, func(c net.Conn, _ *http.Request) bool {
		io.WriteString(c, <-tries)
		return false
	})
	c, err := l.Accept(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got, err := io.ReadAll(c); err != nil || string(got) != "at last" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestAcceptOldGuest(t *testing.T) {
	l := guest(t, func(c net.Conn, _ *http.Request) bool {
		io.WriteString(c, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
		return true
	})
	if _, err := l.Accept(t.Context()); api.KindOf(err) != api.KindUnsupported {
		t.Errorf("a guest that opens no streams: %v", err)
	}
}

// TestAcceptWaits has Accept wait while streams cannot be opened, where Open fails or waits.
func TestAcceptWaits(t *testing.T) {
	l := guest(t, func(c net.Conn, _ *http.Request) bool {
		io.WriteString(c, switching)
		return true
	})
	accepted := make(chan error, 1)
	accept := func() {
		c, err := l.Accept(t.Context())
		if err == nil {
			c.Close()
		}
		accepted <- err
	}
	l.Pause(true)
	if _, err := l.Open(t.Context()); api.KindOf(err) != api.KindConflict {
		t.Errorf("Open of a paused sandbox: %v", err)
	}
	go accept()
	l.Pause(false)
	if err := <-accepted; err != nil {
		t.Error(err)
	}
	resume, err := l.Quiesce(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	go accept()
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := l.Open(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Open of a quiesced link: %v", err)
	}
	select {
	case err := <-accepted:
		t.Errorf("Accept of a quiesced link returned: %v", err)
	default:
	}
	resume()
	if err := <-accepted; err != nil {
		t.Error(err)
	}
	if resume, err = l.Quiesce(t.Context()); err != nil {
		t.Fatal(err)
	}
	go accept()
	l.Close()
	if err := <-accepted; api.KindOf(err) != api.KindUnavailable {
		t.Errorf("Accept of a closed link: %v", err)
	}
	resume()
	if _, err := l.Quiesce(t.Context()); api.KindOf(err) != api.KindUnavailable {
		t.Errorf("Quiesce of a closed link: %v", err)
	}
}

// TestLimitsAreSeparate fills the streams of each direction: the other one still works, and a
// stream that ends makes room again.
func TestLimitsAreSeparate(t *testing.T) {
	l := guest(t, func(c net.Conn, _ *http.Request) bool {
		io.WriteString(c, switching)
		return true
	})
	l.opened.max, l.accepts.max = 3, 2
	fill := func(open func(context.Context) (net.Conn, error), most int) (out []net.Conn) {
		t.Helper()
		for {
			c, err := open(t.Context())
			if err != nil {
				if api.KindOf(err) != api.KindExhausted || len(out) != most {
					t.Errorf("after %d streams: %v", len(out), err)
				}
				return out
			}
			out = append(out, c)
		}
	}
	opened, accepted := fill(l.Open, 3), fill(l.Accept, 2)
	opened[0].Close()
	opened[0].Close() // counts once
	fill(l.Open, 1)
	fill(l.Accept, 0)
	accepted[0].Close()
	fill(l.Accept, 1)
	fill(l.Open, 0)
	l.Close()
	for _, c := range append(opened, accepted...) {
		c.Close()
	}
	if l.opened.open != 0 || l.accepts.open != 0 {
		t.Errorf("%d opened and %d accepted streams are counted after the end", l.opened.open, l.accepts.open)
	}
}

// BenchmarkAccept measures a stream of the guest from the request to its first byte.
func BenchmarkAccept(b *testing.B) {
	l := guest(b, func(c net.Conn, _ *http.Request) bool {
		io.WriteString(c, switching+"x")
		return false
	})
	buf := make([]byte, 1)
	for b.Loop() {
		c, err := l.Accept(b.Context())
		if err == nil {
			_, err = c.Read(buf)
		}
		if err != nil {
			b.Fatal(err)
		}
		c.Close()
	}
}
