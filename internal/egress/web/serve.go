package web

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"time"

	"hortus.dev/api"
)

// Serve serves a connection that a client opened to the target of the grant, by its class, and
// returns when it has ended; c is closed then. It ends the connection when ctx ends.
//
// The error is a *Refusal if the connection was not one that may be served, or if the server
// was not reached. It is nil otherwise, whatever became of the requests.
func (s *Server) Serve(ctx context.Context, c net.Conn, g Grant, h Hooks) error {
	defer c.Close()
	if !s.enter() {
		return nil
	}
	defer s.active.Done()
	return s.serve(ctx, c, g, h)
}

func (s *Server) serve(ctx context.Context, c net.Conn, g Grant, h Hooks) error {
	if g.Class == api.EgressWeb {
		return s.web(ctx, c, g, h)
	}
	up, _, err := h.Dial(ctx, g)
	if err != nil {
		return err
	}
	return s.Relay(ctx, c, up, g)
}

// Relay carries a connection of another class than EgressWeb to a server that is connected
// already. Otherwise it is as Serve. Both connections are closed when it returns.
func (s *Server) Relay(ctx context.Context, c, up net.Conn, g Grant) error {
	defer c.Close()
	defer up.Close()
	if g.Class == api.EgressPassthrough {
		first, err := s.passthrough(ctx, c, g)
		if err != nil {
			return err
		}
		if _, err := up.Write(first); err != nil {
			return nil
		}
	}
	if s.cfg.Watch != nil {
		c = s.cfg.Watch(c, g)
	}
	join(ctx, c, up, s.cfg.Half, &s.relays)
	return nil
}

// ServeProxy serves a connection whose client uses the host as an HTTP proxy. After CONNECT it
// is as Serve for the destination, and returns the same errors.
func (s *Server) ServeProxy(ctx context.Context, c net.Conn, h Hooks) error {
	defer c.Close()
	if !s.enter() {
		return nil
	}
	defer s.active.Done()
	w := &conn{Conn: c, hooks: h, done: make(chan struct{}), tunnels: make(chan tunnel, 1)}
	defer w.Close()
	if !s.push(ctx, w) {
		return nil
	}
	select {
	case t := <-w.tunnels:
		if t.up != nil {
			return s.Relay(ctx, t.client, t.up, t.grant)
		}
		return s.serve(ctx, t.client, t.grant, h)
	case <-w.done:
	case <-s.listener.done:
	case <-ctx.Done():
	}
	return nil
}

// push gives a connection to the http.Server. It returns false if that is closed.
func (s *Server) push(ctx context.Context, c net.Conn) bool {
	select {
	case s.listener.conns <- c:
		return true
	case <-s.listener.done:
	case <-ctx.Done():
	}
	return false
}

// hand gives a connection to the http.Server and waits until it has ended.
func (s *Server) hand(ctx context.Context, w *conn, c net.Conn) {
	defer w.Close()
	if !s.push(ctx, c) {
		return
	}
	select {
	case <-w.done:
	case <-s.listener.done:
	case <-ctx.Done():
	}
}

// web serves HTTP in clear or over TLS.
func (s *Server) web(ctx context.Context, c net.Conn, g Grant, h Hooks) error {
	first, err := peek(ctx, c, s.cfg.Silence)
	if err != nil {
		return s.clientError(err, g)
	}
	protocol := protocolOf(first)
	if protocol == "" {
		return &Refusal{Reason: "neither HTTP nor TLS", Hint: s.allow("For another protocol", "tcp://", g.Target)}
	}
	w := &conn{Conn: &prefixConn{Conn: c, rest: first}, grant: g, hooks: h, done: make(chan struct{})}
	if protocol == "http" {
		s.hand(ctx, w, w)
		return nil
	}
	tc, err := s.terminate(ctx, w, g)
	if tc == nil {
		return err
	}
	s.hand(ctx, w, tc)
	return nil
}

// terminate makes the TLS handshake with a client.
func (s *Server) terminate(ctx context.Context, w *conn, g Grant) (*tls.Conn, error) {
	select {
	case s.shakes <- struct{}{}:
		defer func() { <-s.shakes }()
	case <-ctx.Done():
		return nil, nil
	}
	check := &nameCheck{server: s, target: g.Target}
	hctx, cancel := context.WithTimeout(context.WithValue(ctx, checkKey{}, check), s.cfg.Handshake)
	defer cancel()
	tc := tls.Server(w, s.tls)
	err := tc.HandshakeContext(hctx)
	if err == nil {
		return tc, nil
	}
	w.Close()
	if check.refusal != nil {
		return nil, check.refusal
	}
	var op *net.OpError
	switch text := err.Error(); {
	case errors.As(err, &op) && op.Op == "remote error":
		return nil, &Refusal{Failed: true, Reason: "the program does not accept the certificate of the sandbox's authority (" + strings.TrimPrefix(op.Err.Error(), "tls: ") + ")", Hint: s.allow("If the program has its own list of certificates", "passthrough://", g.Target)}
	case strings.Contains(text, "unsupported application protocols"):
		return nil, &Refusal{Reason: "the TLS connection is not for HTTP", Hint: s.allow("For another protocol over TLS", "passthrough://", g.Target)}
	case ctx.Err() != nil, errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed):
		return nil, nil
	case hctx.Err() != nil:
		return nil, &Refusal{Failed: true, Reason: "the program did not finish the TLS handshake in time"}
	default:
		return nil, &Refusal{Failed: true, Reason: "the TLS handshake with the program failed: " + clip(text)}
	}
}

// peek reads the first bytes of a client. It returns when the protocol can be recognized.
func peek(ctx context.Context, c net.Conn, silence time.Duration) ([]byte, error) {
	stop := context.AfterFunc(ctx, func() { c.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := c.SetReadDeadline(time.Now().Add(silence)); err != nil {
		return nil, err
	}
	buf := make([]byte, maxPeek)
	n := 0
	for n < len(buf) && undecided(buf[:n]) {
		m, err := c.Read(buf[n:])
		n += m
		if err != nil && (n == 0 || !errors.Is(err, io.EOF)) {
			return nil, err
		}
		if err != nil {
			break
		}
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return buf[:n], c.SetReadDeadline(time.Time{})
}

// clientError is the error for a client whose first bytes did not come.
func (s *Server) clientError(err error, g Grant) error {
	var ne net.Error
	if errors.As(err, &ne) && ne.Timeout() {
		return &Refusal{Reason: "the program sent nothing: this is not HTTP or TLS", Hint: s.allow("For a protocol in which the server speaks first", "tcp://", g.Target)}
	}
	return nil // it left
}
