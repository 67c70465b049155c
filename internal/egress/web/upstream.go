package web

import (
	"io"
	"net"
	"net/http"
	"syscall"
)

// upstream is a connection to a server. It reads as much as there is with one system call: TLS
// asks for a record, or for the head of one.
type upstream struct {
	net.Conn
	address string

	raw     syscall.RawConn // nil if it is not a socket
	buffers *buffers
	// buf is a buffer that has unread bytes, rest; nil if there are none. A connection that
	// waits holds no buffer.
	buf, rest []byte
}

func newUpstream(c net.Conn, address string, b *buffers) *upstream {
	u := &upstream{Conn: c, address: address, buffers: b}
	if tc, ok := c.(*net.TCPConn); ok {
		u.raw, _ = tc.SyscallConn()
	}
	return u
}

// Read implements net.Conn. As with any connection of package net, reads at the same time do
// not happen in TLS or HTTP.
func (u *upstream) Read(p []byte) (int, error) {
	if len(p) == 0 || u.raw == nil {
		return u.Conn.Read(p)
	}
	if u.buf == nil {
		if err := u.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, u.rest)
	if u.rest = u.rest[n:]; len(u.rest) == 0 {
		u.buffers.Put(u.buf)
		u.buf, u.rest = nil, nil
	}
	return n, nil
}

// fill waits until there is something to read, and reads it.
func (u *upstream) fill() error {
	var n int
	var rerr error
	err := u.raw.Read(func(fd uintptr) bool {
		u.buf = u.buffers.Get()
		for {
			if n, rerr = syscall.Read(int(fd), u.buf); rerr != syscall.EINTR {
				break
			}
		}
		if n > 0 {
			return true
		}
		u.buffers.Put(u.buf)
		u.buf = nil
		return rerr != syscall.EAGAIN
	})
	switch {
	case err != nil:
		return err
	case rerr != nil:
		return &net.OpError{Op: "read", Net: "tcp", Err: rerr}
	case n == 0:
		return io.EOF
	}
	u.rest = u.buf[:n]
	return nil
}

// ready reports whether a TLS record is certainly there to be read without waiting.
func (u *upstream) ready() bool { return len(u.rest) >= maxRecord }

// maxRecord is the maximum size of a TLS record, in bytes.
const maxRecord = 5 + 16<<10 + 2048

// CloseWrite closes the sending half.
func (u *upstream) CloseWrite() error { return closeWrite(u.Conn) }

// batch is the body of an answer over HTTP/1.1. A Read returns several TLS records if they are
// there, so that they are sent on together.
type batch struct {
	io.ReadCloser
	from *upstream
}

// Read implements io.Reader. It does not wait for more than one record.
func (b batch) Read(p []byte) (n int, err error) {
	n, err = b.ReadCloser.Read(p)
	for err == nil && n > 0 && len(p)-n >= maxRecord && b.from.ready() {
		var m int
		m, err = b.ReadCloser.Read(p[n:])
		n += m
	}
	return n, err
}

// together sends what one Write to a client over HTTP/1.1 and TLS makes, which are records, with
// one system call.
type together struct {
	http.ResponseWriter
	c       *conn
	buffers *buffers
}

// Write implements http.ResponseWriter.
func (w together) Write(p []byte) (int, error) {
	if len(p) <= maxRecord {
		return w.ResponseWriter.Write(p)
	}
	w.c.hold(w.buffers)
	n, err := w.ResponseWriter.Write(p)
	if rerr := w.c.release(); err == nil {
		err = rerr
	}
	return n, err
}

// Unwrap lets http.ResponseController reach the writer.
func (w together) Unwrap() http.ResponseWriter { return w.ResponseWriter }
