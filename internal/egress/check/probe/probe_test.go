package probe

import (
	"bytes"
	"io"
	"net"
	"strings"
	"testing"
)

// ask sends a request and returns the answer and the stream.
func ask(t *testing.T, at string, q Request) (Answer, net.Conn) {
	t.Helper()
	c, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	var a Answer
	if err := WriteLine(c, q); err != nil {
		t.Fatal(err)
	}
	if err := ReadLine(c, &a); err != nil {
		t.Fatal(err)
	}
	return a, c
}

func TestProbe(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- Serve(l) }()
	t.Cleanup(func() { l.Close(); <-done })
	at := l.Addr().String()
	echo, _ := ask(t, at, Request{Op: OpListen, Network: "tcp", Address: "127.0.0.1:0"})
	a, c := ask(t, at, Request{Op: OpDial, Network: "tcp", Address: echo.Address, WaitMS: 60000})
	if a.Error != "" {
		t.Fatal(a.Error)
	}
	io.WriteString(c, "hello")
	c.(*net.TCPConn).CloseWrite()
	if b, err := io.ReadAll(c); err != nil || string(b) != "hello" {
		t.Errorf("echo: %q, %v", b, err)
	}
	if a, _ := ask(t, at, Request{Op: OpFlood, Network: "tcp", Address: echo.Address, Count: 100, Data: []byte("x"), WaitMS: 60000}); a.Count != 100 {
		t.Errorf("flood: %+v", a)
	}
	udp, _ := ask(t, at, Request{Op: OpListen, Network: "udp", Address: "127.0.0.1:0"})
	if a, _ := ask(t, at, Request{Op: OpDatagram, Network: "udp", Address: udp.Address, Data: []byte("d"), WaitMS: 60000}); string(a.Data) != "d" {
		t.Errorf("datagram: %+v", a)
	}
	for _, q := range []Request{{Op: OpDial, Network: "unix", Address: "/none", WaitMS: 1000}, {Op: OpPing, Address: "::1"}, {Op: "other"}} {
		if a, _ := ask(t, at, q); a.Error == "" {
			t.Errorf("%+v succeeded: %+v", q, a)
		}
	}
}

func FuzzReadLine(f *testing.F) {
	f.Add([]byte(`{"op":"dial"}` + "\nrest"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		var q Request
		if ReadLine(r, &q) == nil {
			head, _, _ := strings.Cut(string(b), "\n")
			if left := len(b) - len(head) - 1; r.Len() != left {
				t.Errorf("%d bytes are left; want %d", r.Len(), left)
			}
		}
	})
}
