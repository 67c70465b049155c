package web

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"time"
)

// idleServer is how long a connection to a server is kept for a next request. There are as many
// as requests at once: with fewer, requests at the same time would each open a connection to the
// server and close it. They hold about 30 KB each for this time.
const idleServer = 20 * time.Second

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
		MaxIdleConns:           s.cfg.Requests,
		MaxIdleConnsPerHost:    s.cfg.Requests,
		IdleConnTimeout:        idleServer,
		ExpectContinueTimeout:  time.Second,
		MaxResponseHeaderBytes: maxResponseHeader,
	}
}

// roundTripper returns what answers requests that were allowed.
func (s *Server) roundTripper() http.RoundTripper {
	var next http.RoundTripper = direct{s.transport}
	if s.cfg.Cache != nil {
		next = cacheTransport{s.cfg.Cache, direct{s.transport}}
	}
	if s.cfg.Broker != nil {
		return brokerTransport{s.cfg.Broker, next, direct{s.transport}}
	}
	return next
}

// brokerTransport asks the broker of secrets first.
type brokerTransport struct {
	broker       func(r *http.Request, g Grant, next, direct http.RoundTripper) (*http.Response, error)
	next, direct http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (b brokerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	return b.broker(r, flightOf(r.Context()).Grant, b.next, b.direct)
}

// direct has the server answer.
type direct struct{ transport *http.Transport }

// RoundTrip implements http.RoundTripper.
func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := d.transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	up := flightOf(r.Context()).up
	if resp.ProtoMajor == 1 && resp.StatusCode != http.StatusSwitchingProtocols && up != nil && resp.Body != http.NoBody {
		resp.Body = batch{resp.Body, up}
	}
	return resp, nil
}

// cacheTransport asks the cache first. What the cache downloads may be read by other requests than the one
// that has the connection.
type cacheTransport struct {
	cache  func(*http.Request, Grant, http.RoundTripper) (*http.Response, error)
	direct direct
}

// RoundTrip implements http.RoundTripper.
func (c cacheTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	f := flightOf(r.Context())
	resp, err := c.cache(r, f.Grant, c.direct)
	f.Cached = err == nil && !f.connected
	return resp, err
}

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
	return newUpstream(c, address, &s.buffers), nil
}
