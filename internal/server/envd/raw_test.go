package envd_test

import (
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// raw sends bytes and gives everything that comes back.
func raw(t testing.TB, addr, text string) string {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(2 * time.Minute))
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	b, _ := io.ReadAll(io.LimitReader(c, 1<<20))
	return string(b)
}

// recorder is the least of an http.ResponseWriter.
type recorder struct {
	header http.Header
	status int
}

func newRecorder() *recorder { return &recorder{header: http.Header{}} }

func (w *recorder) Header() http.Header { return w.header }
func (w *recorder) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}
func (w *recorder) Write(p []byte) (int, error) { w.WriteHeader(http.StatusOK); return len(p), nil }

type netConn = net.Conn

func dial(t testing.TB, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(2 * time.Minute))
	return c
}
