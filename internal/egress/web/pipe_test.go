package web

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/test/patience"
)

// sockets returns the two ends of a unix socket.
func sockets(t testing.TB) (near, far *net.UnixConn) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); f.Close() })
	return c.(*net.UnixConn), f.(*net.UnixConn)
}

// counter is a connection as the gateway has it.
type counter struct {
	net.Conn
	direct        bool
	read, written atomic.Int64
}

func (c *counter) NetConn() net.Conn {
	if !c.direct {
		return nil
	}
	return c.Conn
}
func (c *counter) Count(read, written int64) { c.read.Add(read); c.written.Add(written) }
func (c *counter) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.read.Add(int64(n))
	return n, err
}
func (c *counter) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.written.Add(int64(n))
	return n, err
}
func (c *counter) CloseWrite() error { return closeWrite(c.Conn) }

// TestPipe checks that both directions end on their own, and that bytes are counted once, with
// and without the kernel's help.
func TestPipe(t *testing.T) {
	for _, direct := range []bool{true, false} {
		near, far := sockets(t)
		up, server := pair(t)
		client := &counter{Conn: far, direct: direct}
		ended := make(chan struct{})
		go func() { Pipe(t.Context(), client, &upstream{Conn: up}, time.Minute); close(ended) }()
		io.WriteString(near, strings.Repeat("q", 100000))
		near.CloseWrite()
		if b, err := io.ReadAll(server); err != nil || len(b) != 100000 {
			t.Fatalf("the server got %d bytes, %v", len(b), err)
		}
		// The client has ended its half; the answer still arrives.
		go func() {
			io.WriteString(server, strings.Repeat("a", 300000))
			server.Close()
		}()
		if b, err := io.ReadAll(near); err != nil || len(b) != 300000 {
			t.Fatalf("the client got %d bytes, %v", len(b), err)
		}
		<-ended
		if r, w := client.read.Load(), client.written.Load(); r != 100000 || w != 300000 {
			t.Errorf("direct %v: %d and %d bytes were counted", direct, r, w)
		}
		if _, ok := socket(client).(*net.UnixConn); ok != direct {
			t.Errorf("direct %v: copied with %T", direct, socket(client))
		}
	}
	if _, ok := socket(tls.Client(nil, nil)).(*tls.Conn); !ok {
		t.Error("TLS was bypassed")
	}
}

func TestPipeCanceled(t *testing.T) {
	_, far := sockets(t)
	up, server := pair(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { Pipe(ctx, far, up, time.Minute); close(ended) }()
	cancel()
	<-ended
	if _, err := server.Read(make([]byte, 1)); err == nil {
		t.Error("the server's connection is open")
	}
}

// TestPipeHalf checks that a connection of which one direction has ended lasts as long as bytes
// come, and no longer. The control is a connection with both directions.
func TestPipeHalf(t *testing.T) {
	for _, direct := range []bool{true, false} {
		start := func(half time.Duration) (near *net.UnixConn, server net.Conn, ended chan struct{}) {
			near, far := sockets(t)
			up, server := pair(t)
			ended = make(chan struct{})
			go func() { Pipe(t.Context(), &counter{Conn: far, direct: direct}, up, half); close(ended) }()
			return near, server, ended
		}
		near, server, ended := start(20 * time.Millisecond)
		near.CloseWrite()
		if _, err := io.Copy(io.Discard, server); err != nil {
			t.Fatal(err)
		}
		select {
		case <-ended:
		case <-time.After(patience.Of(20 * time.Second)):
			t.Fatal("half a connection without bytes does not end")
		}
		near, server, ended = start(time.Second)
		near.CloseWrite()
		for range 30 { // for longer than a second
			io.WriteString(server, "x")
			if _, err := io.ReadFull(near, make([]byte, 1)); err != nil {
				t.Fatal("half a connection with bytes ends: ", err)
			}
			select {
			case <-ended:
				t.Fatal("half a connection with bytes ended")
			case <-time.After(50 * time.Millisecond):
			}
		}
		server.Close()
		<-ended
		near, server, ended = start(time.Millisecond)
		select {
		case <-ended:
			t.Fatal("a whole connection ended")
		case <-time.After(50 * time.Millisecond):
		}
		near.Close()
		server.Close()
		<-ended
	}
}

// TestPassthrough checks that a passed connection is not changed: the client's own session is
// with the server.
func TestPassthrough(t *testing.T) {
	r := newRig(t)
	r.cdn("pinned.example")
	r.classes["pinned.example:443"] = api.EgressPassthrough
	_, roots := newCA(t, 2)
	c, done := r.open("pinned.example:443")
	tc := tls.Client(c, &tls.Config{RootCAs: roots, ServerName: "pinned.example"})
	io.WriteString(tc, "GET / HTTP/1.1\r\nHost: other.example\r\nConnection: close\r\n\r\n")
	if b, err := io.ReadAll(tc); err != nil || !strings.Contains(string(b), "content of other.example") {
		t.Errorf("%q, %v", b, err)
	}
	c.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
	// What is not TLS is refused, and so is an encrypted server name.
	c, done = r.open("pinned.example:443")
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: pinned.example\r\n\r\n")
	if got := wantRefusal(t, done); got.Reason != "the connection is not TLS" {
		t.Error(got)
	}
	c, done = r.open("pinned.example:443")
	go tls.Client(c, echConfig(t, "pinned.example")).Handshake()
	if got := wantRefusal(t, done); got.Reason != "the TLS connection has an encrypted server name (ECH)" {
		t.Error(got)
	}
}

// TestEncryptedServerName checks a client with a real ECH configuration whose public name is
// allowed: the hidden name is not reached.
func TestEncryptedServerName(t *testing.T) {
	r := newRig(t)
	r.cdn("public.example")
	c, _ := r.open("public.example:443")
	cfg := echConfig(t, "public.example")
	cfg.RootCAs = r.trust
	var rejected *tls.ECHRejectionError
	if err := tls.Client(c, cfg).Handshake(); !errors.As(err, &rejected) {
		t.Errorf("the handshake ended with %v, not with a rejection", err)
	}
}
