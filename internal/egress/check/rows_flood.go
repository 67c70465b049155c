package check

import (
	"context"
	"fmt"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/egress/check/probe"
)

func floodAttacks() []Attack {
	return []Attack{
		{
			ID: "flood/half-closed", Title: "a flood of half-closed connections",
			Tries: fmt.Sprintf("opens %d connections to an allowed server, ends the sending half of each and keeps them", floodSize),
			Holds: "the limit of the sandbox applies, another sandbox is not affected, and the connections can be used again when the server has ended them",
			needs: needsName,
			attack: func(ctx context.Context, s *stage, token string) string {
				a, err := s.query(ctx, s.srv.names.open, typeA)
				if err != nil {
					return err.Error()
				}
				s.srv.hold.close()
				// The token of the row must not reach a server; the flood is allowed to.
				got, c, err := s.sandbox.call(ctx, probe.Request{Op: probe.OpFlood, Network: "tcp", Address: hostPort(a.addr.String(), s.srv.raw), Count: floodSize, Data: []byte(floodText), WaitMS: int(s.cfg.Timeout.Milliseconds())})
				if err != nil {
					s.failed = err
					return ""
				}
				defer c.Close()
				switch {
				case got.Count > api.DefaultEgressConnections:
					return fmt.Sprintf("%d connections are open; the limit is %d", got.Count, api.DefaultEgressConnections)
				case got.Count == 0:
					return "no connection of the flood was opened"
				}
				other := &stage{cfg: s.cfg, srv: s.srv, sandbox: s.other, other: s.sandbox}
				if err := other.wantHTTP(ctx, s.srv.names.open, s.srv.web, newToken()); err != nil {
					return "during the flood another sandbox got: " + err.Error()
				}
				return ""
			},
			control: func(ctx context.Context, s *stage, token string) error {
				// A wall cannot tell a program that has left from one that only listens, so the
				// server ends its half.
				s.srv.hold.open()
				wctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
				defer cancel()
				for {
					a := s.http(wctx, s.srv.names.open, s.srv.web, hostPort(s.srv.names.open, s.srv.web), "/ok/"+token)
					if a.status == 200 {
						return s.reached(ctx, token)
					}
					select {
					case <-wctx.Done():
						return fmt.Errorf("after the flood a request got %s", a)
					case <-time.After(50 * time.Millisecond):
					}
				}
			},
		},
	}
}

// floodText makes the echo server keep its half of a connection open.
const floodText = "flood"

// floodSize is more than the default limit of a sandbox.
const floodSize = api.DefaultEgressConnections + 88

// gate keeps goroutines waiting while it is closed. Its zero value is open.
type gate struct {
	mu   sync.Mutex
	shut chan struct{}
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut == nil {
		g.shut = make(chan struct{})
	}
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut != nil {
		close(g.shut)
		g.shut = nil
	}
}

func (g *gate) wait() {
	g.mu.Lock()
	shut := g.shut
	g.mu.Unlock()
	if shut != nil {
		<-shut
	}
}
