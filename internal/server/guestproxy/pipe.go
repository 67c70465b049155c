package guestproxy

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// halfIdle is how long a joined pair of which one half has ended may stay without
// a byte. A side that left without a word cannot be distinguished from one that only
// listens.
const halfIdle = 2 * time.Minute

// Pipe copies between two connections until both halves have ended, and closes
// both. An end of one half is passed on as such where the other side can do that,
// and ends the pair where it cannot. An error ends the pair, and so does, after
// grace, the end of the sandbox that b leads to, whatever a still has to take.
func Pipe(a, b net.Conn, grace time.Duration) {
	j := &pair{a: a, b: b}
	defer j.close()
	if e, ok := b.(Ender); ok {
		w := NewWatch(a, grace)
		defer w.Stop()
		w.Over(e)
	}
	var other sync.WaitGroup
	other.Go(func() { j.copy(a, b) })
	j.copy(b, a)
	other.Wait()
}

type pair struct {
	a, b net.Conn
	half atomic.Bool
}

func (j *pair) close() {
	j.a.Close()
	j.b.Close()
}

func (j *pair) copy(to, from net.Conn) {
	_, err := io.CopyBuffer(struct{ io.Writer }{to}, halfReader{from, &j.half}, make([]byte, 32<<10))
	if _, halves := from.(halfCloser); err == nil && halves {
		if c, ok := to.(halfCloser); ok && c.CloseWrite() == nil {
			j.half.Store(true)
			_ = to.SetReadDeadline(time.Now().Add(halfIdle))
			return
		}
	}
	j.close()
}

// halfCloser can end one half. The end of one that cannot is that of both.
type halfCloser interface{ CloseWrite() error }

// halfReader bounds the wait for each byte once the other half has ended.
type halfReader struct {
	net.Conn
	half *atomic.Bool
}

// Read implements io.Reader.
func (r halfReader) Read(p []byte) (int, error) {
	if r.half.Load() {
		_ = r.Conn.SetReadDeadline(time.Now().Add(halfIdle))
	}
	return r.Conn.Read(p)
}
