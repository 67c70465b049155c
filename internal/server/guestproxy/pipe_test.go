package guestproxy

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// tcp returns the two ends of a connection.
func tcp(t *testing.T) (a, b *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	s, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	a, b = c.(*net.TCPConn), s.(*net.TCPConn)
	for _, c := range []net.Conn{a, b} {
		c.SetDeadline(time.Now().Add(time.Minute))
		t.Cleanup(func() { c.Close() })
	}
	return a, b
}

// TestPipe passes on bytes both ways, and the end of each half on its own.
func TestPipe(t *testing.T) {
	client, near := tcp(t)
	far, server := tcp(t)
	joined := make(chan struct{})
	go func() { defer close(joined); Pipe(near, far, 0) }()
	sent := strings.Repeat("there ", 100_000)
	go func() { io.WriteString(client, sent); client.CloseWrite() }()
	got, err := io.ReadAll(server)
	if err != nil || string(got) != sent {
		t.Fatalf("%d bytes of %d, %v", len(got), len(sent), err)
	}
	io.WriteString(server, "and back")
	server.CloseWrite()
	if got, err := io.ReadAll(client); err != nil || string(got) != "and back" {
		t.Errorf("%q, %v", got, err)
	}
	<-joined
}

// TestPipeEndsWithEither: what cannot pass on an end of one half ends, and so does
// what breaks.
func TestPipeEndsWithEither(t *testing.T) {
	for name, end := range map[string]func(client, server *net.TCPConn, pipe net.Conn){
		"a reset":    func(client, _ *net.TCPConn, _ net.Conn) { client.SetLinger(0); client.Close() },
		"no half":    func(_, _ *net.TCPConn, pipe net.Conn) { pipe.Close() },
		"a half end": func(client, _ *net.TCPConn, _ net.Conn) { client.CloseWrite() },
	} {
		client, near := tcp(t)
		here, there := net.Pipe() // which has no halves
		joined := make(chan struct{})
		go func() { defer close(joined); Pipe(near, here, 0) }()
		end(client, nil, there)
		<-joined
		if _, err := there.Read(make([]byte, 1)); err == nil {
			t.Errorf("%s: the other side is open", name)
		}
		there.Close()
	}
}
