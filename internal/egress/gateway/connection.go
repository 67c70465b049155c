package gateway

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/egress/dial"
	"hortus.dev/internal/egress/policy"
	"hortus.dev/internal/egress/web"
)

// connection is a stream of the guest, and what it is used for. It implements web.Hooks.
type connection struct {
	s      *Session
	stream net.Conn
	began  time.Time

	// The session's lock protects these.
	counts  *int // the counter that counts it
	granted bool
	grant   web.Grant
	revoked bool

	sent, received atomic.Int64

	mu      sync.Mutex
	address string // of the server
}

// Close closes the stream, which ends the connection.
func (c *connection) Close() { c.stream.Close() }

// revoke closes a connection that the policy no longer allows.
func (c *connection) revoke() {
	c.s.mu.Lock()
	c.revoked = true
	c.s.mu.Unlock()
	c.Close()
}

// decide decides about a connection, and registers what it is to. It decides again if the
// policy changes in the meantime.
func (c *connection) decide(ctx context.Context, t policy.Target) (web.Grant, error) {
	s := c.s
	for {
		s.mu.Lock()
		changes := s.changes
		s.mu.Unlock()
		g, err := s.decide(ctx, t)
		if err != nil {
			return g, err
		}
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			return g, errClosed
		}
		if s.changes == changes {
			c.granted, c.grant = true, g
			s.mu.Unlock()
			return g, nil
		}
		s.mu.Unlock()
	}
}

// decide decides about a connection to a target.
func (s *Session) decide(ctx context.Context, t policy.Target) (web.Grant, error) {
	if r := s.exhausted(); r != nil {
		return web.Grant{}, r
	}
	if r := s.checkName(t.Host, t.Port); r != nil {
		return web.Grant{}, r
	}
	v := s.connectTo(s.policy.Load(), t)
	asked := false
	if v.Ask {
		if err := s.ask(ctx, question{Target: t, op: opConnect}, v); err != nil {
			return web.Grant{}, err
		}
		// The answer may have become a rule.
		asked = true
		v = s.connectTo(s.policy.Load(), t)
	}
	if !v.Allow && !(v.Ask && asked) {
		return web.Grant{}, s.refusal(v, t)
	}
	return web.Grant{Target: t, Class: v.Class, Private: v.Private, Rule: v.Rule, Asked: !v.Allow}, nil
}

// noNetwork is the reason of every refusal in a sandbox without rules.
const noNetwork = "the sandbox has no network"

// refusal explains a verdict.
func (s *Session) refusal(v policy.Verdict, t policy.Target) *web.Refusal {
	r := &web.Refusal{Reason: v.Reason, Rule: v.Rule}
	if v.Reason == policy.ReasonNoRule || v.Reason == policy.ReasonRequest {
		what := t.Host
		if t.Port != 0 {
			what = hostPort(t)
		}
		r.Hint = s.command + " " + what
	}
	if v.Reason == policy.ReasonNoRule && s.policy.Load().Empty() {
		r.Reason = noNetwork
	}
	return r
}

// Connect implements web.Hooks.
func (c *connection) Connect(ctx context.Context, t policy.Target, tunnel bool) (g web.Grant, err error) {
	if tunnel {
		g, err = c.decide(ctx, t)
	} else {
		g, err = c.s.decide(ctx, t)
	}
	var r *web.Refusal
	if errors.As(err, &r) {
		c.s.refused(t, opConnect, "", "", r)
	}
	return g, err
}

// Request implements web.Hooks.
func (c *connection) Request(ctx context.Context, g web.Grant, method, path string) (web.Grant, error) {
	s := c.s
	v := s.policy.Load().Request(g.Target, method, path)
	byPerson := g.Asked && !v.Inspect // who was asked about the connection
	if v.Ask && !byPerson {
		q := question{Target: g.Target, op: opRequest, method: clip(method, maxMethod), path: clip(path, maxPath)}
		if err := s.ask(ctx, q, v); err != nil {
			return g, err
		}
		byPerson = true
		v = s.policy.Load().Request(g.Target, method, path)
	}
	if !v.Allow && !(v.Ask && byPerson) {
		return g, s.refusal(v, g.Target)
	}
	g.Private, g.Rule, g.Asked, g.Inspect = v.Private, v.Rule, !v.Allow, v.Inspect
	return g, nil
}

// Dial implements web.Hooks.
func (c *connection) Dial(ctx context.Context, g web.Grant) (net.Conn, string, error) {
	s := c.s
	select {
	case s.dials <- struct{}{}:
		defer func() { <-s.dials }()
	case <-ctx.Done():
		return nil, "", ctx.Err()
	}
	conn, addr, err := s.cfg.Dialer.Connect(ctx, dial.Destination{
		Host: g.Host, Port: g.Port, Private: g.Private,
		Allow: func(a netip.Addr) bool {
			v := s.policy.Load().Resolved(g.Target, a)
			return v.Allow || v.Ask && g.Asked
		},
	})
	if err != nil {
		return nil, "", dialRefusal(err)
	}
	address := ""
	if addr.IsValid() {
		address = addr.String()
	}
	c.mu.Lock()
	c.address = address
	c.mu.Unlock()
	return conn, address, nil
}

// dialRefusal explains an error of package dial.
func dialRefusal(err error) *web.Refusal {
	r := &web.Refusal{Failed: true, Reason: err.Error()}
	var e *dial.Error
	if !errors.As(err, &e) {
		return r
	}
	switch e.Code {
	case dial.Forbidden:
		r.Failed = false
		r.Hint = "If it is a server of yours, add a rule for this name with \"private\"."
	case dial.Timeout, dial.ResolverFailed:
		r.Status = http.StatusGatewayTimeout
	}
	return r
}

// Done implements web.Hooks.
func (c *connection) Done(e web.Exchange) {
	d := api.EgressDecision{
		Result: api.EgressAllowed, Op: opRequest, Host: e.Host, Port: e.Port, Class: e.Class, Address: e.Address,
		Method: clip(e.Method, maxMethod), Path: clip(e.Path, maxPath), Status: e.Status, Rule: e.Rule, Cached: e.Cached,
		DurationMS: time.Since(e.Began).Milliseconds(),
	}
	explain(&d, e.Err)
	c.s.ledger.add(d)
}

// failed records a connection that was not made.
func (c *connection) failed(t policy.Target, err error) {
	var r *web.Refusal
	if errors.As(err, &r) {
		c.s.refused(t, opConnect, "", "", r)
	}
}

// finish records a connection that has ended.
func (c *connection) finish(err error) {
	c.s.mu.Lock()
	granted, g, revoked := c.granted, c.grant, c.revoked
	c.s.mu.Unlock()
	if !granted {
		return // a client of the proxy that made requests only
	}
	c.mu.Lock()
	address := c.address
	c.mu.Unlock()
	d := api.EgressDecision{
		Result: api.EgressAllowed, Op: opConnect, Host: g.Host, Port: g.Port, Class: g.Class, Address: address, Rule: g.Rule,
		Sent: c.sent.Load(), Received: c.received.Load(), DurationMS: time.Since(c.began).Milliseconds(),
	}
	switch r := c.s.exhausted(); {
	case revoked:
		d.Reason = "closed because the policy has changed"
	case err != nil:
		explain(&d, err)
	case r != nil:
		d.Reason = r.Reason
	}
	c.s.ledger.add(d)
}

// countConn is the client's end of a connection. It counts bytes, and ends when the session's
// maximum is reached.
type countConn struct {
	net.Conn
	c *connection
}

// errSpent is the error of a connection when the maximum of bytes is reached.
var errSpent = errors.New("the sandbox has used its maximum of bytes")

// Read implements net.Conn.
func (n *countConn) Read(p []byte) (int, error) {
	m, err := n.Conn.Read(p)
	if m > 0 && !n.c.s.spend(int64(m)) {
		n.Conn.Close()
		return 0, errSpent
	}
	n.c.sent.Add(int64(m))
	return m, err
}

// Write implements net.Conn.
func (n *countConn) Write(p []byte) (int, error) {
	if !n.c.s.spend(int64(len(p))) {
		n.Conn.Close()
		return 0, errSpent
	}
	m, err := n.Conn.Write(p)
	n.c.received.Add(int64(m))
	return m, err
}

// Count implements web.Counter.
func (n *countConn) Count(read, written int64) {
	n.c.sent.Add(read)
	n.c.received.Add(written)
	n.c.s.used.Add(read + written)
}

// NetConn returns the connection that bytes may be copied to and from directly, or nil if
// they have to be counted before.
func (n *countConn) NetConn() net.Conn {
	if _, limit := n.c.s.policy.Load().Limits(); limit != 0 {
		return nil
	}
	return n.Conn
}

// CloseWrite closes the sending half.
func (n *countConn) CloseWrite() error {
	if h, ok := n.Conn.(interface{ CloseWrite() error }); ok {
		return h.CloseWrite()
	}
	return errors.ErrUnsupported
}
