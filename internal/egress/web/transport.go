package web

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"time"
)

// newTransport returns the connections to servers. They are keyed by host and port, and their
// certificates are verified for that host.
func (s *Server) newTransport() *http.Transport {
	return &http.Transport{
		Proxy:                  nil, // package dial knows the host's proxy
		DialContext:            s.dial,
		TLSClientConfig:        &tls.Config{RootCAs: s.cfg.Roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    s.cfg.Handshake,
		ForceAttemptHTTP2:      true,
		DisableCompression:     true,
		MaxIdleConns:           32,
		MaxIdleConnsPerHost:    8,
		IdleConnTimeout:        time.Minute,
		ExpectContinueTimeout:  time.Second,
		MaxResponseHeaderBytes: maxResponseHeader,
		WriteBufferSize:        16 << 10,
		ReadBufferSize:         16 << 10,
	}
}

// roundTripper returns what answers requests that were allowed.
func (s *Server) roundTripper() http.RoundTripper {
	if s.cfg.Cache == nil {
		return s.transport
	}
	return cached{s}
}

// cached asks the cache first.
type cached struct{ *Server }

// RoundTrip implements http.RoundTripper.
func (c cached) RoundTrip(r *http.Request) (*http.Response, error) {
	f := flightOf(r.Context())
	resp, err := c.cfg.Cache(r, f.Grant, c.transport)
	f.Cached = err == nil && !f.connected
	return resp, err
}

// upstream is a connection to a server.
type upstream struct {
	net.Conn
	address string
}

// CloseWrite closes the sending half.
func (u *upstream) CloseWrite() error { return closeWrite(u.Conn) }

// NetConn returns the connection itself.
func (u *upstream) NetConn() net.Conn { return u.Conn }

// dial connects for a request, which is in ctx.
func (s *Server) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	f := flightOf(ctx)
	if f == nil {
		return nil, errors.New("a connection without a request")
	}
	c, address, err := f.hooks.Dial(ctx, f.Grant)
	if err != nil {
		return nil, err
	}
	return &upstream{Conn: c, address: address}, nil
}
