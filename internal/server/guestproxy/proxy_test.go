package guestproxy_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/server/guestproxy"
	"hortus.dev/test/patience"
)

// TestAnswerBeforeTheRequestEnds: a guest answers what opens a stream before the client
// has said the last of its request, and continues after it.
func TestAnswerBeforeTheRequestEnds(t *testing.T) {
	guest := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		var first [5]byte
		if err := c.EnableFullDuplex(); err != nil {
			t.Error(err)
		}
		if _, err := io.ReadFull(r.Body, first[:]); err != nil {
			t.Error(err)
		}
		fmt.Fprintf(w, "begins with %s\n", first)
		if err := c.Flush(); err != nil {
			t.Error(err)
		}
		rest, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "ends with %q, %v\n", rest, err)
	}))
	defer guest.Close()
	proxy := guestproxy.New(guestproxy.Config{
		Open: func(context.Context, api.SandboxID) (net.Conn, error) {
			return net.Dial("tcp", guest.Listener.Addr().String())
		},
		Fail: func(_ http.ResponseWriter, _ *http.Request, _ api.SandboxID, err error) { t.Error(err) },
	})
	daemon := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		proxy.Serve(w, r, "i0000000000000000000")
	}))
	defer daemon.Close()

	client, err := net.Dial("tcp", daemon.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	client.SetDeadline(time.Now().Add(patience.Of(30 * time.Second))) // where the answer waits for the request's end
	if _, err := io.WriteString(client, "POST /filesystem.Filesystem/WatchDir HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(client), nil)
	if err != nil {
		t.Fatal(err)
	}
	answer := bufio.NewReader(resp.Body)
	if line, err := answer.ReadString('\n'); line != "begins with hello\n" {
		t.Fatalf("%q, %v", line, err)
	}
	if _, err := io.WriteString(client, "0\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if line, err := answer.ReadString('\n'); line != "ends with \"\", <nil>\n" {
		t.Errorf("%q, %v", line, err)
	}
}

// TestRequestGoesOn: a request whose answer was not the last attempt is carried on after the end of full duplex, however long that takes.
func TestRequestGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		daemon := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			guestproxy.EnableFullDuplex(w, r)()
			select {
			case <-r.Context().Done():
				w.WriteHeader(http.StatusGone)
			case <-time.After(time.Minute):
			}
		})}
		l := &oneConn{conn: theirs, closed: make(chan struct{})}
		served := make(chan struct{})
		go func() { defer close(served); _ = daemon.Serve(l) }()
		go func() { _, _ = io.WriteString(ours, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello") }()
		resp, err := http.ReadResponse(bufio.NewReader(ours), nil)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Error(resp, err)
		}
		daemon.Close()
		ours.Close()
		<-served
	})
}

// oneConn is a listener with one connection.
type oneConn struct {
	conn   net.Conn
	closed chan struct{}
}

func (l *oneConn) Accept() (net.Conn, error) {
	if c := l.conn; c != nil {
		l.conn = nil
		return c, nil
	}
	<-l.closed
	return nil, net.ErrClosed
}

func (l *oneConn) Close() error   { close(l.closed); return nil }
func (l *oneConn) Addr() net.Addr { return &net.TCPAddr{} }

// TestConnectionGoesOn: a request whose body nobody read is answered, and so is the next
// one on the same connection.
func TestConnectionGoesOn(t *testing.T) {
	proxy := guestproxy.New(guestproxy.Config{
		Open: func(context.Context, api.SandboxID) (net.Conn, error) { return nil, net.ErrClosed },
		Fail: func(w http.ResponseWriter, _ *http.Request, _ api.SandboxID, _ error) {
			w.WriteHeader(http.StatusBadGateway)
		},
	})
	daemon := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		proxy.Serve(w, r, "i0000000000000000000")
	}))
	defer daemon.Close()
	client, err := net.Dial("tcp", daemon.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	client.SetDeadline(time.Now().Add(patience.Of(30 * time.Second)))
	answers := bufio.NewReader(client)
	for i := range 3 {
		if _, err := io.WriteString(client, "POST /process.Process/Connect HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"); err != nil {
			t.Fatal(i, err)
		}
		resp, err := http.ReadResponse(answers, nil)
		if err != nil || resp.StatusCode != http.StatusBadGateway {
			t.Fatal(i, resp, err)
		}
		resp.Body.Close()
	}
}
