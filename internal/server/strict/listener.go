package strict

import (
	"container/list"
	"context"
	"crypto/tls"
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
	tls         *tls.Config
}

// NewListener makes one of another.
func NewListener(ln net.Listener, limits Limits) *Listener {
	return &Listener{Listener: ln, connections: connections{limits: limits}}
}

// NewTLSListener makes one whose connections are encrypted. If the configuration offers "h2", a connection
// may carry HTTP/2 instead, which the server must serve as unencrypted HTTP/2: to package net/http these
// connections are plain. See InContext. The server's limit on the time of a head includes the handshake.
func NewTLSListener(ln net.Listener, limits Limits, cfg *tls.Config) *Listener {
	return &Listener{Listener: ln, connections: connections{limits: limits}, tls: cfg}
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		own := &conn{Conn: c, plain: c, connections: &l.connections}
		if l.tls != nil {
			own.tls = tls.Server(c, l.tls)
			own.Conn = own.tls
		}
		switch {
		case l.connections.add(own):
			return own, nil
		case l.tls != nil:
			c.Close() // an answer would wait for the client's handshake
		default:
			rejectConn(c)
		}
	}
}

type connKey struct{}

// InContext is for http.Server.ConnContext, so that TLSOf finds the connection of a request.
func InContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// TLSOf returns the state of the encrypted connection of a request; nil if it is not encrypted.
func TLSOf(ctx context.Context) *tls.ConnectionState {
	c, _ := ctx.Value(connKey{}).(*conn)
	if c == nil || c.tls == nil {
		return nil
	}
	state := c.tls.ConnectionState()
	return &state
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
	plain net.Conn  // what is below TLS
	tls   *tls.Conn // nil if the connection is not encrypted
	raw   atomic.Bool
	s     scanner // of the one reader
	http2 int     // bytes of the preface of HTTP/2 that are still to come, plus 1; 0 if the connection carries HTTP/1
	begun bool    // the handshake is over, or was answered without TLS

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

// preface begins a connection of HTTP/2.
const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

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
	if c.tls != nil {
		if bad := (tls.RecordHeaderError{}); !c.begun && errors.As(err, &bad) && bad.Conn != nil {
			c.begun = true // the error comes again with each later read
			_, _ = io.WriteString(bad.Conn, unencrypted)
		}
		if !c.begun && n > 0 {
			if c.begun = true; c.tls.ConnectionState().NegotiatedProtocol == "h2" {
				c.http2 = len(preface) + 1
			}
		}
		if c.http2 > 0 {
			return c.readHTTP2(p[:n], err)
		}
	}
	pass := c.s.scan(p[:n])
	switch {
	case pass == n:
		return n, err
	case pass == 0:
		return 0, io.EOF
	}
	return pass, nil
}

// unencrypted is the answer to a client that sends a request without TLS.
const unencrypted = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\nThis port serves HTTPS only: use https://\n"

// readHTTP2 passes bytes on that a client said are of HTTP/2. The server would serve others as HTTP/1, unseen by the scanner.
func (c *conn) readHTTP2(p []byte, err error) (int, error) {
	rest := preface[len(preface)+1-c.http2:]
	n := min(len(p), len(rest))
	if string(p[:n]) != rest[:n] {
		c.s.refuse("not HTTP/2")
		return 0, io.EOF
	}
	if c.http2 -= n; c.http2 == 1 {
		c.raw.Store(true)
	}
	return len(p), err
}
