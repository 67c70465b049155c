package http_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/test/patience"
)

func TestPort(t *testing.T) {
	f := &fakes{guest: func(c net.Conn) {
		io.WriteString(c, "hello ")
		br := bufio.NewReader(c)
		for {
			line, err := br.ReadString('\n')
			if err != nil {
				return
			}
			io.WriteString(c, strings.ToUpper(line))
		}
	}}
	c, path := serve(t, f)
	s, err := c.Sandboxes.Get(t.Context(), string(f.id))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	conn, err := s.Dial(t.Context(), 3000)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Minute))
	io.WriteString(conn, "words\n")
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil || line != "hello WORDS\n" {
		t.Errorf("%q, %v", line, err)
	}
	if _, err := s.Dial(t.Context(), 3001); api.KindOf(err) != api.KindUnavailable || api.HintOf(err) != "listen" {
		t.Errorf("a closed port: %v", err)
	}
	for _, port := range []int{0, -1, 65536} {
		if _, err := s.Dial(t.Context(), port); api.KindOf(err) != api.KindInvalid {
			t.Errorf("port %d: %v", port, err)
		}
	}
	plain, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	io.WriteString(plain, "GET /v1/sandboxes/"+string(f.id)+"/ports/3000 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	if b, _ := io.ReadAll(plain); !strings.HasPrefix(string(b), "HTTP/1.1 400 ") || !strings.Contains(string(b), "hortus-port") {
		t.Errorf("without an upgrade: %s", b)
	}
}

// TestPortOfExpiredKey: a stream to a port ends with the key that opened it.
func TestPortOfExpiredKey(t *testing.T) {
	key, expire := context.WithCancel(t.Context())
	f := &fakes{key: key, guest: func(c net.Conn) { io.Copy(c, c) }}
	c, _ := serve(t, f)
	s, err := c.Sandboxes.Get(t.Context(), string(f.id))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	conn, err := s.Dial(t.Context(), 3000)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience.Of(time.Minute)))
	io.WriteString(conn, "x")
	if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
		t.Fatalf("before: %v", err)
	}
	expire()
	_, err = conn.Read(make([]byte, 1))
	if timeout, ok := err.(net.Error); err == nil || ok && timeout.Timeout() {
		t.Errorf("the stream of an expired key: %v", err)
	}
}

// TestEarlyBytes: what a client sends without waiting for the answer is not lost.
func TestEarlyBytes(t *testing.T) {
	got := make(chan string, 1)
	f := &fakes{guest: func(c net.Conn) {
		b := make([]byte, 5)
		io.ReadFull(c, b)
		got <- string(b)
	}}
	_, path := serve(t, f)
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "GET /v1/sandboxes/"+string(f.id)+"/ports/3000 HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: hortus-port\r\n\r\nearly")
	if s := <-got; s != "early" {
		t.Errorf("the port got %q", s)
	}
}
