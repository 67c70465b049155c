package strict_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"hortus.dev/internal/server/strict"
	wait "hortus.dev/test/patience"
)

// patience bounds the wait for what comes at once where nothing is broken.
var patience = wait.Of(time.Minute)

// served is what a request is answered.
const served = "served\n"

// inn is a server with room for so many. A request for /stream is served until the
// client leaves; any other at once.
type inn struct {
	t    *testing.T
	ln   *strict.Listener
	more chan struct{} // has a stream say more
}

func open(t *testing.T, limits strict.Limits) *inn {
	t.Helper()
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	i := &inn{t, strict.NewListener(tcp, limits), make(chan struct{})}
	srv := &http.Server{ConnState: strict.State, ReadHeaderTimeout: patience, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, served)
		for r.URL.Path == "/stream" {
			http.NewResponseController(w).Flush()
			select {
			case <-r.Context().Done():
				return
			case <-i.more:
				io.WriteString(w, served)
			}
		}
	})}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(i.ln) }()
	t.Cleanup(func() {
		srv.Close()
		<-served
	})
	return i
}

// guest is a client's connection.
type guest struct {
	net.Conn
	r      *bufio.Reader
	stream io.Reader // the body of the answer to /stream
}

// from dials from an address of this machine.
func (i *inn) from(ip string) *guest {
	i.t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}
	c, err := d.DialContext(i.t.Context(), "tcp", i.ln.Addr().String())
	if err != nil {
		i.t.Fatal(err)
	}
	i.t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(patience))
	return &guest{Conn: c, r: bufio.NewReader(c)}
}

// ask sends a request and gives the status of its answer, 0 for none. Of a stream it
// reads what there is.
func (g *guest) ask(path string) (int, http.Header) {
	io.WriteString(g, "GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n") // or it was closed: the read says so
	resp, err := http.ReadResponse(g.r, nil)
	if err != nil {
		return 0, nil
	}
	if path != "/stream" {
		io.Copy(io.Discard, resp.Body)
	} else if g.stream = resp.Body; resp.StatusCode == http.StatusOK {
		io.CopyN(io.Discard, resp.Body, int64(len(served)))
	}
	return resp.StatusCode, resp.Header
}

// eventually waits for something.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-deadline.C:
			t.Fatalf("never happened: %s", what)
		case <-tick.C:
		}
	}
}

// TestIdleMakesWay opens many connections that ask for nothing, or do not come to the
// end of it: they are bounded, and others are served.
func TestIdleMakesWay(t *testing.T) {
	const room, many = 16, 2000
	i := open(t, strict.Limits{Total: room})
	stream := i.from("127.0.0.1")
	if status, _ := stream.ask("/stream"); status != http.StatusOK {
		t.Fatalf("a stream: %d", status)
	}
	var ended sync.WaitGroup
	t.Cleanup(ended.Wait) // after the connections below were closed
	gone := make(chan struct{}, many)
	for n := range many {
		g := i.from("127.0.0.1")
		switch n % 3 {
		case 0: // says nothing
		case 1:
			io.WriteString(g, "GET / HTTP/1.1\r\nHo")
		case 2:
			g.ask("/") // and stays
		}
		ended.Go(func() {
			io.Copy(io.Discard, g.r)
			g.Close()
			gone <- struct{}{}
		})
		if n%100 == 0 {
			if status, _ := i.from("127.0.0.1").ask("/"); status != http.StatusOK {
				t.Errorf("beside %d others a client is answered %d", n, status)
			}
		}
	}
	for range many - room {
		<-gone
	}
	if n, _ := i.ln.Open(); n > room {
		t.Errorf("%d connections are open, of %d", n, room)
	}
	// What is served was not made to make way.
	select {
	case i.more <- struct{}{}:
	case <-time.After(patience):
		t.Fatal("the stream has ended")
	}
	if _, err := io.CopyN(io.Discard, stream.stream, int64(len(served))); err != nil {
		t.Errorf("the stream was cut: %v", err)
	}
}

// TestStreamsStay: where everything is served, who comes is told, until one ends.
func TestStreamsStay(t *testing.T) {
	i := open(t, strict.Limits{Total: 2})
	one, two := i.from("127.0.0.1"), i.from("127.0.0.1")
	for _, g := range []*guest{one, two} {
		if status, _ := g.ask("/stream"); status != http.StatusOK {
			t.Fatalf("a stream: %d", status)
		}
	}
	g := i.from("127.0.0.1")
	resp, err := http.ReadResponse(g.r, nil) // without a word
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" || !resp.Close || err != nil || !strings.Contains(string(b), `"code":503`) {
		t.Errorf("%d %v %q %v", resp.StatusCode, resp.Header, b, err)
	}
	one.Close()
	eventually(t, "there is room", func() bool {
		status, _ := i.from("127.0.0.1").ask("/")
		return status == http.StatusOK
	})
	two.Close()
	eventually(t, "nothing is left", func() bool { n, a := i.ln.Open(); return n <= 1 && a <= 1 })
}

// TestOneAddress: one address cannot keep others out, and those who share one are not
// mistaken for one.
func TestOneAddress(t *testing.T) {
	for name, shared := range map[string]func(netip.Addr) bool{"its own": nil, "shared": netip.Addr.IsLoopback} {
		i := open(t, strict.Limits{Total: 100, PerAddress: 4, Shared: shared})
		for range 4 {
			if status, _ := i.from("127.0.0.1").ask("/stream"); status != http.StatusOK {
				t.Fatalf("%s: a stream: %d", name, status)
			}
		}
		want := http.StatusServiceUnavailable
		if shared != nil {
			want = http.StatusOK
		}
		// The refusal may be lost to the reset that follows what was sent.
		if status, _ := i.from("127.0.0.1").ask("/"); status != want && (status != 0 || shared != nil) {
			t.Errorf("%s: the fifth is answered %d, want %d", name, status, want)
		}
		if status, _ := i.from("127.0.0.2").ask("/"); status != http.StatusOK {
			t.Errorf("%s: another address is answered %d", name, status)
		}
	}
}

// TestEverybodyIsCountedOut has clients come and go in every way at once.
func TestEverybodyIsCountedOut(t *testing.T) {
	i := open(t, strict.Limits{Total: 8, PerAddress: 6})
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			for k := range 50 {
				d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(1+n%4))}}
				c, err := d.DialContext(t.Context(), "tcp", i.ln.Addr().String())
				if err != nil {
					t.Error(err)
					return
				}
				c.SetDeadline(time.Now().Add(patience))
				g := &guest{Conn: c, r: bufio.NewReader(c)}
				switch k % 4 {
				case 0:
					g.ask("/")
					g.ask("/")
				case 1:
					io.WriteString(g, "GET")
				case 2:
					g.ask("/stream")
				}
				g.Close()
			}
		})
	}
	all.Wait()
	eventually(t, "nobody is counted any more", func() bool { n, a := i.ln.Open(); return n == 0 && a == 0 })
}

// TestHalfEnd: a connection that was taken over can end one half, as TCP can.
func TestHalfEnd(t *testing.T) {
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln := strict.NewListener(tcp, strict.Limits{})
	defer ln.Close()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	own, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	own.SetDeadline(time.Now().Add(patience))
	strict.State(own, http.StateHijacked)
	if err := own.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the other side reads %v", err)
	}
	io.WriteString(c, "still")
	b := make([]byte, 5)
	if _, err := io.ReadFull(own, b); err != nil || string(b) != "still" {
		t.Errorf("the open half gives %q, %v", b, err)
	}
}
