package broker

import (
	"net"
	"net/http"

	"hortus.dev/internal/egress/policy"
	"hortus.dev/internal/egress/web"
)

// CheckName refuses a name that has a placeholder: one that is looked up, or that a connection
// is opened for. The port is 0 for a name that is looked up. The refusal is nil otherwise.
func (s *Session) CheckName(host string, port int) *web.Refusal {
	found := find(host)
	if found == "" {
		return nil
	}
	f := flight{s: s, st: s.state.Load(), target: policy.Target{Host: clip(host, 253), Port: port}}
	var r *web.Refusal
	if err, ok := f.misplaced(found, "a host name").(*web.Refusal); ok {
		r = err
		r.Reason = "the host name has a placeholder of a secret"
	}
	return r
}

// Refused records a placeholder in a request that was refused before it got to RoundTrip, by the
// policy or because its Host header is not that of its connection.
func (s *Session) Refused(r *http.Request, g web.Grant) {
	hits := locate(r)
	if len(hits) == 0 {
		return
	}
	f := &flight{s: s, st: s.state.Load(), scheme: "http", target: g.Target, method: r.Method, path: r.URL.EscapedPath()}
	if r.TLS != nil {
		f.scheme = "https"
	}
	_ = f.refuse(hits[0].text, "the request itself is not allowed")
}

// Watch returns a connection of a client whose bytes are forwarded without being read otherwise.
// It ends before a placeholder is complete. A session that never had grants gets the connection
// itself.
func (s *Session) Watch(c net.Conn, g web.Grant) net.Conn {
	st := s.state.Load()
	if !st.armed {
		return c
	}
	return &watchedConn{Conn: c, f: flight{s: s, st: st, scheme: "tcp", target: g.Target}}
}

type watchedConn struct {
	net.Conn
	f       flight
	scan    scanner
	refusal error
}

// Read implements net.Conn.
func (c *watchedConn) Read(p []byte) (int, error) {
	if c.refusal != nil {
		return 0, c.refusal
	}
	n, err := c.Conn.Read(p)
	if found := c.scan.scan(p[:n]); found != "" {
		c.refusal = c.f.misplaced(found, "a connection that is not HTTP")
		c.Conn.Close()
		return 0, c.refusal
	}
	return n, err
}

// CloseWrite closes the sending half.
func (c *watchedConn) CloseWrite() error {
	if h, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return h.CloseWrite()
	}
	return net.ErrClosed
}
