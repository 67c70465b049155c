package web

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"strings"
	"time"

	"hortus.dev/internal/egress/policy"
)

// flight is a request that is being forwarded.
type flight struct {
	Exchange
	scheme string
	hooks  Hooks
	cancel context.CancelCauseFunc
	// connected is true when the request has got a connection to the server.
	connected bool
	up        *upstream // that is used, if it is one over TLS
}

type flightKey struct{}

func flightOf(ctx context.Context) *flight {
	f, _ := ctx.Value(flightKey{}).(*flight)
	return f
}

// handle serves a request.
func (s *Server) handle(w http.ResponseWriter, r *http.Request) {
	if !s.enter() {
		panic(http.ErrAbortHandler)
	}
	defer s.active.Done()
	c := r.Context().Value(connKey{}).(*conn)
	if c.tunnels != nil {
		s.handleProxy(w, r, c)
		return
	}
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
		if r.ProtoMajor == 1 {
			w = together{w, c, &s.buffers}
		}
	}
	s.forward(w, r, c.hooks, c.grant, scheme)
}

// forward decides about a request and forwards it to the target of the grant.
func (s *Server) forward(w http.ResponseWriter, r *http.Request, h Hooks, g Grant, scheme string) {
	path := r.URL.EscapedPath()
	if path == "" {
		path = "/"
	}
	f := &flight{Exchange: Exchange{Grant: g, Method: r.Method, Path: path, Began: time.Now()}, scheme: scheme, hooks: h}
	defer func() { h.Done(f.Exchange) }()
	if refusal := checkRequest(r, g.Target, scheme); refusal != nil {
		s.refused(r, g)
		f.refuse(w, refusal)
		return
	}
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	default:
		f.refuse(w, &Refusal{Status: http.StatusServiceUnavailable, Reason: "too many requests at once"})
		return
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	f.cancel = cancel
	if err := s.decide(ctx, f); err != nil {
		s.refused(r, g)
		f.refuse(w, err)
		return
	}
	defer s.land(f)
	if what := policy.Override(r.Header, r.URL.RawQuery); f.Inspect && what != "" {
		s.refused(r, g)
		f.refuse(w, &Refusal{Reason: what + " may make the server read another method or path than the rules allow", Rule: f.Rule})
		return
	}
	ctx = httptrace.WithClientTrace(context.WithValue(ctx, flightKey{}, f), &httptrace.ClientTrace{GotConn: f.gotConn})
	// Nil keeps net/http from adding what the server did not send.
	w.Header()["Content-Type"], w.Header()["Date"] = nil, nil
	if r.ContentLength != 0 && (r.Header.Get("Expect") != "" || r.ProtoMajor == 2) {
		w = withoutHints{w}
	}
	s.proxy.ServeHTTP(w, r.WithContext(ctx))
}

// refused reports a request that is not allowed.
func (s *Server) refused(r *http.Request, g Grant) {
	if s.cfg.Refused != nil {
		s.cfg.Refused(r, g)
	}
}

// withoutHints drops informational answers except 100, for clients that may wait for 100.
// net/http writes 100 when the body is read. In HTTP/1.1 another informational answer would be
// written at the same time, without a lock. In HTTP/2 it would keep 100 from being written, and
// the Expect header is removed, so that every request with a body may wait.
type withoutHints struct{ http.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (w withoutHints) WriteHeader(status int) {
	if status > 100 && status < 200 && status != http.StatusSwitchingProtocols {
		return
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController reach the writer.
func (w withoutHints) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// decide asks the hooks about a request and registers it. It asks again if the policy changes
// in the meantime.
func (s *Server) decide(ctx context.Context, f *flight) error {
	for {
		s.mu.Lock()
		changes := s.changes
		s.mu.Unlock()
		g, err := f.hooks.Request(ctx, f.Grant, f.Method, f.Path)
		if err != nil {
			return err
		}
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			return errClosed
		}
		if s.changes == changes {
			f.Grant = g
			s.flights[f] = struct{}{}
			s.mu.Unlock()
			return nil
		}
		s.mu.Unlock()
	}
}

// land ends what decide registered.
func (s *Server) land(f *flight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.flights, f)
}

// gotConn notes the address of the connection that is used.
func (f *flight) gotConn(info httptrace.GotConnInfo) {
	f.connected = true
	c := info.Conn
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
		f.up, _ = c.(*upstream)
	}
	if up, ok := c.(*upstream); ok {
		f.Address = up.address
	}
}

// refuse answers a request that is not forwarded.
func (f *flight) refuse(w http.ResponseWriter, err error) {
	var r *Refusal
	if !errors.As(err, &r) {
		r = &Refusal{Failed: true, Reason: err.Error()}
	}
	f.Err = r
	answer(w, r)
}

// answer writes a refusal.
func answer(w http.ResponseWriter, r *Refusal) {
	h := w.Header()
	clear(h)
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Hortus-Egress", "denied")
	if r.Failed {
		h.Set("X-Hortus-Egress", "failed")
	}
	w.WriteHeader(r.status())
	text := "hortus: " + r.Reason + "\n"
	if r.Hint != "" {
		text += r.Hint + "\n"
	}
	_, _ = io.WriteString(w, text)
}

// rewrite makes the request that is sent to the server.
func rewrite(p *httputil.ProxyRequest) {
	f := flightOf(p.In.Context())
	p.Out.URL.Scheme, p.Out.URL.Host = f.scheme, hostPort(f.Target)
	p.Out.URL.RawQuery, p.Out.URL.ForceQuery = p.In.URL.RawQuery, p.In.URL.ForceQuery
	p.Out.Host = p.In.Host
	delete(p.Out.Header, "Host")
	// The values of trailers come with the end of the body.
	p.Out.Trailer = p.In.Trailer
	// ReverseProxy removes these; they are the client's business, unless they are hop-by-hop.
	hop := strings.ToLower(strings.Join(p.In.Header["Connection"], ","))
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		if v, ok := p.In.Header[name]; ok && !strings.Contains(hop, strings.ToLower(name)) {
			p.Out.Header[name] = v
		}
	}
}

// received checks and notes an answer.
func received(resp *http.Response) error {
	f := flightOf(resp.Request.Context())
	f.Status = resp.StatusCode
	if resp.StatusCode == http.StatusSwitchingProtocols && !strings.EqualFold(resp.Request.Header.Get("Upgrade"), "websocket") {
		return &Refusal{Failed: true, Reason: "the server switched protocols without being asked"}
	}
	// Other addresses of the service, such as HTTP/3, are not reachable.
	resp.Header.Del("Alt-Svc")
	return nil
}

// failed answers a request whose server was not reached or did not answer.
func (s *Server) failed(w http.ResponseWriter, r *http.Request, err error) {
	f := flightOf(r.Context())
	if context.Cause(r.Context()) == errRevoked {
		err = &Refusal{Reason: errRevoked.Error()}
	}
	var refusal *Refusal
	if !errors.As(err, &refusal) {
		if r.Context().Err() != nil {
			panic(http.ErrAbortHandler) // the client has left
		}
		refusal = serverError(f, err)
	}
	f.refuse(w, refusal)
}

// serverError explains the error of a server.
func serverError(f *flight, err error) *Refusal {
	r := &Refusal{Failed: true}
	var cert *tls.CertificateVerificationError
	var op *net.OpError
	var ne net.Error
	switch {
	case errors.As(err, &cert):
		r.Reason = "the certificate of " + hostPort(f.Target) + " is not valid: " + clip(strings.TrimPrefix(cert.Err.Error(), "x509: "))
	case errors.As(err, &ne) && ne.Timeout():
		r.Status, r.Reason = http.StatusGatewayTimeout, hostPort(f.Target)+" did not answer in time"
	case errors.As(err, &op) && op.Err != nil:
		// The error itself has addresses of the host.
		r.Reason = "the connection to " + hostPort(f.Target) + " failed: " + clip(op.Err.Error())
	default:
		r.Reason = "the request to " + hostPort(f.Target) + " failed: " + clip(err.Error())
	}
	return r
}
