package gateway

import (
	"context"
	"sync"
	"sync/atomic"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/egress"
	"hortus.dev/internal/egress/broker"
	"hortus.dev/internal/egress/policy"
	"hortus.dev/internal/egress/web"
)

const (
	// maxDials is the maximum number of lookups and connection attempts at once.
	maxDials = 64
	// maxResolvers is the maximum number of streams that ask for names: those of a guest, and as many that it has closed and that have not been seen to end.
	maxResolvers = 2 * envd.MaxEgressResolvers
)

// Session serves one sandbox. Its methods may be called from several goroutines.
type Session struct {
	cfg      Config
	peer     egress.Peer
	command  string // the command that allows something, without its last argument
	web      *web.Server
	secrets  *broker.Session // nil without a broker
	acceptor acceptor
	ledger   *ledger
	dials    chan struct{}

	questions questions

	ctx    context.Context // ends with the session
	cancel context.CancelFunc
	all    sync.WaitGroup // goroutines
	closes sync.Once

	policy atomic.Pointer[policy.Policy]
	used   atomic.Int64 // bytes of all connections

	mu        sync.Mutex
	closed    bool
	changes   int // calls of Apply
	conns     map[*connection]struct{}
	open      int  // connections, without streams that ask for names
	resolvers int  // streams that ask for names
	spent     bool // the maximum of bytes was reached, and that was recorded
}

// Apply replaces the policy. Open connections and requests that it does not allow, or allows in
// another way, are closed. Bytes that were used count for a new maximum too; a connection that
// was opened without a maximum of bytes is counted when it ends.
//
// Errors: KindInvalid for an invalid policy; the old one remains.
func (s *Session) Apply(p api.EgressPolicy) error {
	compiled, err := policy.Compile(p, s.peer.Ceiling)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.policy.Store(compiled)
	s.changes++
	s.spent = false
	var denied []*connection
	for c := range s.conns {
		if c.granted && !stillAllowed(s.connectTo(compiled, c.grant.Target), c.grant) {
			denied = append(denied, c)
		}
	}
	s.mu.Unlock()
	for _, c := range denied {
		c.revoke()
	}
	s.web.Recheck(func(g web.Grant, method, path string) bool {
		v := compiled.Request(g.Target, method, path)
		return v.Allow && (v.Private || !g.Private) || v.Ask && g.Asked && !v.Inspect
	})
	return nil
}

// SetGrants replaces the secrets that the sandbox may use. Requests that begin later are decided
// by the new ones. Grants must be set before the first program of the sandbox gets a placeholder:
// the bytes of connections that are open then are not searched for it.
//
// Errors: KindInvalid for grants that are not valid, and KindUnsupported if there is no broker;
// the old ones remain.
func (s *Session) SetGrants(grants []broker.Grant) error {
	if s.secrets == nil {
		if len(grants) == 0 {
			return nil
		}
		return api.Errorf(api.KindUnsupported, "the gateway has no broker of secrets")
	}
	return s.secrets.SetGrants(grants)
}

// checkName refuses a name that has the placeholder of a secret.
func (s *Session) checkName(host string, port int) *web.Refusal {
	if s.secrets == nil {
		return nil
	}
	return s.secrets.CheckName(host, port)
}

// stillAllowed reports whether a connection may stay open.
func stillAllowed(v policy.Verdict, g web.Grant) bool {
	if v.Class != g.Class || g.Private && !v.Private {
		return false
	}
	return v.Allow || v.Ask && g.Asked
}

// Close closes every connection and returns when none is left. It is idempotent.
func (s *Session) Close() {
	s.closes.Do(func() {
		s.mu.Lock()
		s.closed = true
		s.mu.Unlock()
		s.cancel()
		s.closeConnections()
		s.web.Close()
		s.all.Wait()
		if s.secrets != nil {
			s.secrets.Close()
		}
		s.ledger.close()
	})
}

// closeConnections closes every stream.
func (s *Session) closeConnections() {
	s.mu.Lock()
	var all []*connection
	for c := range s.conns {
		all = append(all, c)
	}
	s.mu.Unlock()
	for _, c := range all {
		c.Close()
	}
}

// enter registers a stream; false means that there are too many, or that the session is
// closed.
func (s *Session) enter(c *connection) bool {
	limit, _ := s.policy.Load().Limits()
	s.mu.Lock()
	defer s.mu.Unlock()
	// Some more than the limits, for those that will be answered that there are too many.
	if s.closed || len(s.conns) >= limit+2*maxResolvers {
		return false
	}
	s.conns[c] = struct{}{}
	return true
}

// leave ends what enter and count registered.
func (s *Session) leave(c *connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	if c.counts != nil {
		*c.counts--
	}
}

// count counts a stream as a connection or as one that asks for names; false means that there
// are too many.
func (s *Session) count(c *connection, resolver bool) bool {
	limit, _ := s.policy.Load().Limits()
	s.mu.Lock()
	defer s.mu.Unlock()
	n := &s.open
	if resolver {
		n, limit = &s.resolvers, maxResolvers
	}
	if *n >= limit {
		return false
	}
	*n++
	c.counts = n
	return true
}

// spend counts bytes. It returns false if they are more than the maximum; they must not be
// forwarded then, and every connection is closed.
func (s *Session) spend(n int64) bool {
	used := s.used.Add(n)
	_, limit := s.policy.Load().Limits()
	if limit == 0 || used <= limit {
		return true
	}
	s.used.Add(-n)
	s.mu.Lock()
	first := !s.spent
	s.spent = true
	s.mu.Unlock()
	if first {
		s.closeConnections()
	}
	return false
}

// exhausted returns a refusal if the maximum of bytes has been reached.
func (s *Session) exhausted() *web.Refusal {
	_, limit := s.policy.Load().Limits()
	s.mu.Lock()
	spent := s.spent
	s.mu.Unlock()
	if limit == 0 || !spent && s.used.Load() < limit {
		return nil
	}
	return &web.Refusal{Reason: tooManyBytes(limit)}
}
