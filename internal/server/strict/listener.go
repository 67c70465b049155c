package strict

import (
	"container/list"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
)

// Listener accepts connections that carry plain requests of HTTP/1 alone, and not too
// many. The server that takes them has State among its ConnState.
type Listener struct {
	net.Listener
	connections connections
}

// NewListener makes one of another.
func NewListener(ln net.Listener, limits Limits) *Listener {
	return &Listener{Listener: ln, connections: connections{limits: limits}}
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		own := &conn{Conn: c, connections: &l.connections}
		if l.connections.add(own) {
			return own, nil
		}
		rejectConn(c)
	}
}

// State follows what a connection is used for. One that has been taken over for
// another protocol is released: what it carries from then on are no requests.
func State(c net.Conn, state http.ConnState) {
	own, ok := c.(*conn)
	if !ok {
		return
	}
	switch state {
	case http.StateHijacked:
		own.raw.Store(true)
		own.connections.serving(own, true)
	case http.StateActive:
		own.connections.serving(own, true)
	case http.StateIdle:
		own.connections.serving(own, false)
	}
}

// conn is a connection whose requests are looked at as they are read.
type conn struct {
	net.Conn
	raw atomic.Bool
	s   scanner // of the one reader

	connections *connections
	// What follows is the connections's, under its lock.
	from  netip.Addr
	place *list.Element // among those that wait; nil while a request is served
	since uint64        // when it began to wait
	left  bool
}

// Close implements net.Conn.
func (c *conn) Close() error {
	defer c.connections.release(c)
	return c.Conn.Close()
}

// CloseWrite ends what is sent, so that a last answer is not lost to what the client
// sends still.
func (c *conn) CloseWrite() error {
	if h, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return h.CloseWrite()
	}
	return errors.ErrUnsupported
}

// Read implements net.Conn. After what may pass of a request that is refused comes
// io.EOF: the server answers a head that has no end with 400, and tells a handler that
// reads such a body that it was cut.
func (c *conn) Read(p []byte) (int, error) {
	if c.raw.Load() {
		return c.Conn.Read(p)
	}
	if c.s.phase == refused {
		return 0, io.EOF
	}
	n, err := c.Conn.Read(p)
	pass := c.s.scan(p[:n])
	switch {
	case pass == n:
		return n, err
	case pass == 0:
		return 0, io.EOF
	}
	return pass, nil
}
