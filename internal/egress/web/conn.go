package web

import (
	"errors"
	"net"
	"sync"
)

// conn is a connection of a client that the http.Server serves.
type conn struct {
	net.Conn
	grant Grant // unset for a client that uses the host as an HTTP proxy
	hooks Hooks

	once sync.Once
	done chan struct{} // closed with the connection
	// tunnels gets what remains of a connection after CONNECT; nil if it is not one to
	// the proxy.
	tunnels chan tunnel

	// What is written while it is held is sent when it is released, or when held is full.
	writing sync.Mutex
	held    []byte // nil: not held
	pool    *buffers
}

// Write implements net.Conn.
func (c *conn) Write(p []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	if c.held == nil {
		return c.Conn.Write(p)
	}
	if len(c.held)+len(p) > cap(c.held) {
		if _, err := c.Conn.Write(c.held); err != nil {
			return 0, err
		}
		c.held = c.held[:0]
		if len(p) > cap(c.held) {
			return c.Conn.Write(p)
		}
	}
	c.held = append(c.held, p...)
	return len(p), nil
}

// hold keeps what is written until release. The same goroutine calls both.
func (c *conn) hold(pool *buffers) {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.pool, c.held = pool, pool.Get()[:0]
}

// release sends what was written since hold.
func (c *conn) release() (err error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	if len(c.held) > 0 {
		_, err = c.Conn.Write(c.held)
	}
	c.pool.Put(c.held[:cap(c.held)])
	c.held = nil
	return err
}

// tunnel is a connection after CONNECT.
type tunnel struct {
	client net.Conn
	up     net.Conn // nil if the class needs none yet
	grant  Grant
}

type connKey struct{}

// Close closes the connection.
func (c *conn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { close(c.done) })
	return err
}

// CloseWrite closes the sending half.
func (c *conn) CloseWrite() error { return closeWrite(c.Conn) }

func closeWrite(c net.Conn) error {
	if h, ok := c.(interface{ CloseWrite() error }); ok {
		return h.CloseWrite()
	}
	return errors.ErrUnsupported
}

// listener gives the http.Server the connections that were checked.
type listener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newListener() *listener {
	return &listener{conns: make(chan net.Conn), done: make(chan struct{})}
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *listener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr { return &net.UnixAddr{Name: "egress", Net: "unix"} }

// WithPrefix returns a connection that begins with bytes that were read already.
func WithPrefix(c net.Conn, rest []byte) net.Conn {
	if len(rest) == 0 {
		return c
	}
	return &prefixConn{Conn: c, rest: append([]byte(nil), rest...)}
}

// prefixConn is a connection whose first bytes were read already.
type prefixConn struct {
	net.Conn
	rest []byte
}

// Read implements net.Conn.
func (p *prefixConn) Read(b []byte) (int, error) {
	if len(p.rest) > 0 {
		n := copy(b, p.rest)
		p.rest = p.rest[n:]
		return n, nil
	}
	p.rest = nil
	return p.Conn.Read(b)
}

// NetConn returns the connection itself once the first bytes have been read, else nil.
func (p *prefixConn) NetConn() net.Conn {
	if len(p.rest) > 0 {
		return nil
	}
	return p.Conn
}

// CloseWrite closes the sending half.
func (p *prefixConn) CloseWrite() error { return closeWrite(p.Conn) }
