package check

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"
)

// tlsConn makes a TLS handshake from the sandbox with a port of the allowed name. The certificate
// is not checked: it is the wall's.
func (s *stage) tlsConn(ctx context.Context, port int, cfg *tls.Config) (*tls.Conn, error) {
	c, err := s.connect(ctx, s.srv.names.open, port)
	if err != nil {
		return nil, err
	}
	cfg.InsecureSkipVerify = true
	_ = c.SetDeadline(time.Now().Add(s.cfg.Timeout))
	tc := tls.Client(c, cfg)
	if err := tc.HandshakeContext(ctx); err != nil {
		c.Close()
		return nil, fmt.Errorf("%w: %w", errRefused, err)
	}
	return tc, nil
}

// https makes one request over TLS with a server name and a Host header.
func (s *stage) https(ctx context.Context, port int, serverName, host, path string) answer {
	c, err := s.tlsConn(ctx, port, &tls.Config{ServerName: serverName, NextProtos: []string{"http/1.1"}})
	if err != nil {
		return answer{err: err}
	}
	defer c.Close()
	return s.send(c, get(host, path), "GET")
}

// wantHTTPS is the control of TLS: the server gets the request, or its certificate is refused by
// a daemon that does not know its authority.
func (s *stage) wantHTTPS(ctx context.Context, token string) error {
	name := s.srv.names.open
	return s.arrived(ctx, s.https(ctx, s.srv.tls, name, hostPort(name, s.srv.tls), "/ok/"+token), token)
}

func (s *stage) arrived(ctx context.Context, a answer, token string) error {
	if a.status == http.StatusOK {
		return s.reached(ctx, token)
	}
	if !s.srv.lies && a.egress == "failed" && strings.Contains(a.body, "certificate") {
		return nil // the daemon reached the server
	}
	return fmt.Errorf("a request that is allowed got %s", a)
}

// http2 makes requests over one HTTP/2 connection, each with its own :authority, and returns
// their answers.
func (s *stage) http2(ctx context.Context, serverName string, authorities []string, path string) ([]answer, error) {
	tc, err := s.tlsConn(ctx, s.srv.tls, &tls.Config{ServerName: serverName, NextProtos: []string{"h2"}})
	if err != nil {
		return nil, err
	}
	if tc.ConnectionState().NegotiatedProtocol != "h2" {
		tc.Close()
		return nil, fmt.Errorf("%w: no HTTP/2", errRefused)
	}
	defer tc.Close()
	conns := make(chan net.Conn, 1)
	conns <- tc
	transport := &http.Transport{
		Protocols: new(http.Protocols), MaxConnsPerHost: 1,
		DialTLSContext: func(context.Context, string, string) (net.Conn, error) {
			select {
			case c := <-conns:
				return c, nil
			default:
				return nil, errors.New("the connection was closed")
			}
		},
	}
	transport.Protocols.SetHTTP2(true)
	defer transport.CloseIdleConnections()
	var out []answer
	for _, authority := range authorities {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+hostPort(s.srv.names.open, s.srv.tls)+path, nil)
		if err != nil {
			return nil, err
		}
		req.Host = authority
		resp, err := transport.RoundTrip(req)
		if err != nil {
			out = append(out, answer{err: err})
			continue
		}
		out = append(out, answerOf(resp, true))
	}
	return out, nil
}

// follow asks the allowed server for a redirect and follows it from the sandbox.
func (s *stage) follow(ctx context.Context, to string) (answer, error) {
	name := s.srv.names.open
	a := s.http(ctx, name, s.srv.web, hostPort(name, s.srv.web), redirectPath+"?to="+to)
	if a.err != nil || a.status != http.StatusFound {
		return a, fmt.Errorf("no redirect: %s", a)
	}
	rest, ok := strings.CutPrefix(a.header.Get("Location"), "http://")
	if !ok {
		return a, fmt.Errorf("the redirect is to %q", a.header.Get("Location"))
	}
	authority, path, _ := strings.Cut(rest, "/")
	return s.fetch(ctx, authority, "/"+path), nil
}

// fetch makes a request for an authority as a client without a proxy does.
func (s *stage) fetch(ctx context.Context, authority, path string) answer {
	host, port, err := net.SplitHostPort(authority)
	if err != nil {
		host, port = authority, "80"
	}
	var c net.Conn
	switch {
	case host == "localhost" || host == s.srv.names.open && s.srv.names.proxyOnly:
		c, _, err = s.tunnel(ctx, net.JoinHostPort(host, port))
	case net.ParseIP(host) == nil:
		var a dnsAnswer
		if a, err = s.query(ctx, host, typeA); err == nil {
			c, err = s.dial(ctx, "tcp", net.JoinHostPort(a.addr.String(), port))
		}
	default:
		c, err = s.dial(ctx, "tcp", net.JoinHostPort(host, port))
	}
	if err != nil {
		return answer{err: err}
	}
	defer c.Close()
	return s.send(c, get(authority, path), "GET")
}

// reuse makes two requests over one connection, and returns the answer to the second one.
func (s *stage) reuse(c net.Conn, first, second string) answer {
	br := bufio.NewReader(c)
	if a := s.exchange(c, br, first, "GET"); a.err != nil || a.egress == "denied" {
		return answer{err: fmt.Errorf("the first request got %s", a)}
	}
	return s.exchange(c, br, second, "GET")
}
