package rpc

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

const (
	// maxConns is the maximum number of connections of the host's clients.
	maxConns = 1024
	// maxInside is the maximum number of connections from programs of the sandbox. They do
	// not count against maxConns.
	maxInside = 16
	// maxOutgoing is the maximum number of connections that carry a stream of the guest to
	// its host, or wait for one. They do not count against maxConns.
	maxOutgoing = 4096 + 512
	// maxIdleBuf is the maximum buffer, in bytes, that an idle connection keeps.
	maxIdleBuf = 16 << 10
)

// Handler answers one request. The connection is closed after an error.
type Handler func(*Conn, *http.Request) error

// Config is what a server serves.
type Config struct {
	// Handlers are for the host's clients, Inside for programs of the sandbox, by path.
	Handlers, Inside map[string]Handler
	// Await blocks until a request may be handled. If it returns false, the connection is
	// closed. It must return when done is closed.
	Await func(done <-chan struct{}, c *Conn, req *http.Request) bool
}

// Server serves connections.
type Server struct {
	cfg Config

	mu    sync.Mutex
	conns map[*Conn]struct{}
	kinds [kinds]int     // how many of each kind
	left  sync.Cond      // a connection was closed
	quiet bool           // no connection is admitted
	wg    sync.WaitGroup // connections
}

// kind is the kind of a connection: each has its own limit.
type kind int

const (
	client   kind = iota // of the host's clients
	inside               // of programs of the sandbox
	outgoing             // a stream of the guest to its host
	kinds
)

// limitOf is the maximum number of connections of a kind.
func limitOf(k kind) int { return [kinds]int{maxConns, maxInside, maxOutgoing}[k] }

// NewServer returns a server without connections.
func NewServer(cfg Config) *Server {
	s := &Server{cfg: cfg, conns: make(map[*Conn]struct{})}
	s.left.L = &s.mu
	return s
}

// Serve serves the host's clients until ctx ends, and then waits for all connections.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	defer context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for c := range s.conns {
			c.SetDeadline(time.Unix(1, 0))
		}
	})()
	defer s.wg.Wait()
	return s.accept(ctx, l, client)
}

// ServeInside serves programs of the sandbox until ctx ends.
func (s *Server) ServeInside(ctx context.Context, l net.Listener) error {
	return s.accept(ctx, l, inside)
}

func (s *Server) accept(ctx context.Context, l net.Listener, k kind) error {
	defer context.AfterFunc(ctx, func() { l.Close() })()
	for {
		nc, err := l.Accept()
		switch {
		case ctx.Err() != nil:
			if nc != nil {
				nc.Close()
			}
			return ctx.Err()
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil: // most likely out of descriptors; retry
			time.Sleep(10 * time.Millisecond)
			continue
		}
		s.take(ctx, nc, k)
	}
}

// Take serves a connection of a client of the host. It closes the connection if the server
// is quiet or has too many connections.
func (s *Server) Take(ctx context.Context, nc net.Conn) { s.take(ctx, nc, client) }

func (s *Server) take(ctx context.Context, nc net.Conn, k kind) {
	c, err := newConn(nc)
	if err == nil {
		c.server, c.kind = s, k
	}
	if err != nil || !s.admit(c) {
		nc.Close()
		return
	}
	go s.serveConn(ctx, c)
}

// admit registers a connection unless the server is quiet or has too many connections.
func (s *Server) admit(c *Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.quiet || s.kinds[c.kind] >= limitOf(c.kind) {
		return false
	}
	s.kinds[c.kind]++
	s.conns[c] = struct{}{}
	s.wg.Add(1)
	return true
}

func (s *Server) serveConn(ctx context.Context, c *Conn) {
	defer s.wg.Done()
	defer func() {
		// Close before deleting: AwaitNone waits for closed descriptors.
		c.Close()
		s.mu.Lock()
		delete(s.conns, c)
		s.kinds[c.kind]--
		s.mu.Unlock()
		s.left.Broadcast()
		// A panic in one request must not end the sandbox.
		if r := recover(); r != nil {
			os.Stderr.WriteString("hortus-guest: panic in a request handler\n")
		}
	}()
	handlers := s.cfg.Handlers
	if c.kind == inside {
		handlers = s.cfg.Inside
	}
	for ctx.Err() == nil {
		req, err := c.readRequest()
		if err != nil {
			c.refuse(err)
			return
		}
		if !s.cfg.Await(ctx.Done(), c, req) {
			return
		}
		if h := handlers[req.URL.Path]; h == nil {
			err = c.Fail(http.StatusNotFound, "path not found")
		} else {
			err = h(c, req)
		}
		if err != nil {
			return
		}
		if c.close || !c.Drain(req) {
			c.linger(req)
			return
		}
		if cap(c.out.buf) > maxIdleBuf {
			c.out.buf = nil
		}
	}
}

// Outgoing counts the connection as a stream of the guest to its host from now on. It returns
// false if there are too many.
func (c *Conn) Outgoing() bool {
	s := c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.kind != outgoing {
		if s.kinds[outgoing] >= limitOf(outgoing) {
			return false
		}
		s.kinds[c.kind]--
		s.kinds[outgoing]++
		c.kind = outgoing
	}
	return true
}

// Cut ends every connection and admits no new one until Resume.
func (s *Server) Cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.quiet = true
	for c := range s.conns {
		c.Cut()
	}
}

// AwaitNone waits until no connection is open.
func (s *Server) AwaitNone() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.conns) > 0 {
		s.left.Wait()
	}
}

// Resume admits connections again.
func (s *Server) Resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.quiet = false
}
