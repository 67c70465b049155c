package guestproxy

import (
	"bytes"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"hortus.dev/api/envd"
)

// lines takes what a server logs.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements io.Writer.
func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// String returns it.
func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestNothingAfterTheClientLeft: a stream that continues, or is cut, when its client's
// connection was given back writes nothing to it, and nothing about it into the log.
func TestNothingAfterTheClientLeft(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var logged lines
	left, done := make(chan struct{}, 1), make(chan struct{})
	srv := &http.Server{
		ErrorLog: log.New(&logged, "", 0),
		ConnState: func(_ net.Conn, s http.ConnState) {
			if s == http.StateHijacked {
				left <- struct{}{}
			}
		},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer close(done)
			out := NewFrames(w, envd.JSON)
			defer out.CloseOnDone(r.Context())()
			if !out.Event(&envd.ProcessEvent{Start: &envd.StartEvent{PID: 7}}) {
				t.Error("the client is there, and is told nothing")
			}
			<-left
			if out.Event(&envd.ProcessEvent{Data: &envd.DataEvent{Stdout: []byte("more")}}) {
				t.Error("an event was written to a client that left")
			}
			if out.End(errors.New("the guest cut the stream")) {
				t.Error("an end was written to a client that left")
			}
		}),
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(time.Minute))
	io.WriteString(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
	if _, err := c.Read(make([]byte, 1)); err != nil {
		t.Error(err)
	}
	c.Close()
	<-done
	srv.Close()
	<-served
	if s := logged.String(); s != "" {
		t.Errorf("the server logged %q", s)
	}
}
