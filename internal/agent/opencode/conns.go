package opencode

import (
	"context"
	"net"
	"sync"
)

// conns are the connections of a client: the transport of package http may still make one when the request is over that
// needed it.
type conns struct {
	connect func(ctx context.Context) (net.Conn, error)
	life    context.Context
	end     context.CancelFunc
	dials   sync.WaitGroup

	mu     sync.Mutex
	closed bool
	open   map[*conn]bool
}

func newConns(connect func(ctx context.Context) (net.Conn, error)) *conns {
	life, end := context.WithCancel(context.Background())
	return &conns{connect: connect, life: life, end: end, open: map[*conn]bool{}}
}

// conn is a connection that is forgotten when it is closed.
type conn struct {
	net.Conn
	of *conns
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// dial makes a connection, unless the client is closed first.
func (s *conns) dial(ctx context.Context) (net.Conn, error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, net.ErrClosed
	}
	s.dials.Add(1)
	s.mu.Unlock()
	defer s.dials.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.life, cancel)()
	raw, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	c := &conn{raw, s}
	if !s.keep(c) {
		_ = raw.Close() // nobody uses it
		return nil, net.ErrClosed
	}
	return c, nil
}

// keep notes a connection; false if the client was closed.
func (s *conns) keep(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.open[c] = true
	return true
}

// close ends all connections. It is idempotent.
func (s *conns) close() {
	s.mu.Lock()
	s.closed = true
	open := s.open
	s.open = map[*conn]bool{}
	s.mu.Unlock()
	s.end()
	s.dials.Wait()
	for c := range open {
		_ = c.Conn.Close() // its requests have ended
	}
}
