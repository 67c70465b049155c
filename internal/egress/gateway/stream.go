package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/egress/policy"
	"hortus.dev/internal/egress/web"
)

// serve serves a stream.
func (c *connection) serve() {
	s := c.s
	defer s.leave(c)
	defer c.stream.Close()
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	br := bufio.NewReaderSize(c.stream, envd.MaxEgressLine)
	if c.stream.SetDeadline(time.Now().Add(s.cfg.first)) != nil {
		return
	}
	req, err := readRequest(br)
	if err != nil {
		c.answerError(err)
		return
	}
	resolver := req.Op == envd.EgressResolve
	if !s.count(c, resolver) {
		if !resolver {
			limit, _ := s.policy.Load().Limits()
			s.refused(policy.Target{Host: clip(req.Name, maxHost), Port: req.Port}, opConnect, "", "", &web.Refusal{Reason: tooManyConnections(limit)})
		}
		c.answer(envd.EgressErrBusy)
		return
	}
	switch req.Op {
	case envd.EgressResolve:
		c.resolve(br, req)
	case envd.EgressConnect:
		c.connect(ctx, br, req)
	case envd.EgressProxy:
		c.proxy(ctx, br)
	default:
		c.answer(envd.EgressErrInvalid)
	}
}

// errInvalid is the error for a line that is no request.
var errInvalid = errors.New("the line is not a request")

// readRequest reads a line.
func readRequest(br *bufio.Reader) (envd.EgressRequest, error) {
	line, err := br.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return envd.EgressRequest{}, errInvalid
	}
	if err != nil {
		return envd.EgressRequest{}, err
	}
	var req envd.EgressRequest
	if json.Unmarshal(line, &req) != nil {
		return envd.EgressRequest{}, errInvalid
	}
	return req, nil
}

// answerError answers a request that could not be read.
func (c *connection) answerError(err error) {
	if errors.Is(err, errInvalid) {
		c.answer(envd.EgressErrInvalid)
	}
}

// answer sends an answer; no error means OK.
func (c *connection) answer(problem string) bool {
	line, err := json.Marshal(envd.EgressAnswer{OK: problem == "", Error: problem})
	if err != nil {
		return false
	}
	if c.stream.SetWriteDeadline(time.Now().Add(c.s.cfg.first)) != nil {
		return false
	}
	_, err = c.stream.Write(append(line, '\n'))
	return err == nil
}

// resolve answers requests for names until the guest ends the stream.
func (c *connection) resolve(br *bufio.Reader, req envd.EgressRequest) {
	s := c.s
	for {
		problem := envd.EgressErrInvalid
		if req.Op == envd.EgressResolve {
			problem = s.resolve(req.Name)
		}
		if !c.answer(problem) {
			return
		}
		// The next request may take any time to begin, but not to end.
		if c.stream.SetReadDeadline(time.Time{}) != nil {
			return
		}
		if _, err := br.Peek(1); err != nil {
			return
		}
		if c.stream.SetReadDeadline(time.Now().Add(s.cfg.first)) != nil {
			return
		}
		var err error
		if req, err = readRequest(br); err != nil {
			c.answerError(err)
			return
		}
	}
}

// resolve decides whether a name may be used.
func (s *Session) resolve(name string) (problem string) {
	host, err := policy.Normalize(name)
	if err != nil {
		return envd.EgressErrInvalid
	}
	if r := s.checkName(host, 0); r != nil {
		s.refused(policy.Target{Host: host}, opResolve, "", "", r)
		return envd.EgressErrDenied
	}
	v := s.policy.Load().Name(host)
	if v.Allow || v.Ask && s.cfg.Asker != nil {
		return ""
	}
	s.refused(policy.Target{Host: host}, opResolve, "", "", s.refusal(v, policy.Target{Host: host}))
	return envd.EgressErrDenied
}

// connect serves a connection to one destination.
func (c *connection) connect(ctx context.Context, br *bufio.Reader, req envd.EgressRequest) {
	t, err := policy.NewTarget(req.Name, req.Port)
	if err != nil {
		c.answer(envd.EgressErrInvalid)
		return
	}
	if err := c.stream.SetDeadline(time.Time{}); err != nil {
		return
	}
	g, err := c.decideWatched(ctx, br, t)
	var up net.Conn
	if err == nil && g.Class != api.EgressWeb {
		up, _, err = c.Dial(ctx, g)
	}
	if err != nil {
		c.failed(t, err)
		c.answer(problemOf(err))
		return
	}
	if !c.answer("") || c.stream.SetDeadline(time.Time{}) != nil {
		if up != nil {
			up.Close()
		}
		c.finish(nil)
		return
	}
	client := c.client(br)
	if up != nil {
		err = c.s.web.Relay(ctx, client, up, g)
	} else {
		err = c.s.web.Serve(ctx, client, g, c)
	}
	c.finish(err)
}

// decideWatched decides about a connection. If a person is asked, it ends when the guest leaves.
func (c *connection) decideWatched(ctx context.Context, br *bufio.Reader, t policy.Target) (web.Grant, error) {
	if !c.s.policy.Load().Connect(t).Ask {
		// It takes no time. If the policy changes in between so that it asks, nobody watches
		// the guest, and the question ends with its timeout or the session.
		return c.decide(ctx, t)
	}
	ctx, stop := c.watch(ctx, br)
	g, err := c.decide(ctx, t)
	if !stop() {
		err = errClosed // the guest has left
	}
	return g, err
}

// problemOf returns the error of an answer.
func problemOf(err error) string {
	var r *web.Refusal
	if errors.As(err, &r) && !r.Failed {
		return envd.EgressErrDenied
	}
	return envd.EgressErrFailed
}

// proxy serves a client that was configured with an HTTP proxy.
func (c *connection) proxy(ctx context.Context, br *bufio.Reader) {
	if c.stream.SetDeadline(time.Time{}) != nil {
		return
	}
	err := c.s.web.ServeProxy(ctx, c.client(br), c)
	c.finish(err)
}

// client returns the rest of the stream, counted.
func (c *connection) client(br *bufio.Reader) net.Conn {
	rest, _ := br.Peek(br.Buffered())
	return &countConn{Conn: web.WithPrefix(c.stream, rest), c: c}
}

// watch returns a context that ends when the guest closes the stream. stop ends the watch, and
// returns false if the guest has closed it. Nothing else may read in between.
func (c *connection) watch(ctx context.Context, br *bufio.Reader) (_ context.Context, stop func() bool) {
	ctx, cancel := context.WithCancel(ctx)
	gone := make(chan bool, 1)
	c.s.all.Go(func() {
		_, err := br.Peek(1)
		left := errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed)
		if left {
			cancel()
		}
		gone <- left
	})
	return ctx, func() bool {
		_ = c.stream.SetReadDeadline(time.Unix(1, 0))
		left := <-gone
		cancel()
		return !left && c.stream.SetReadDeadline(time.Time{}) == nil
	}
}
