package server

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/egress"
	"hortus.dev/internal/egress/gateway"
	"hortus.dev/internal/sandbox/tether"
)

// session serves one sandbox.
type session struct {
	server  *Server
	peer    egress.Peer
	gateway *gateway.Session
	lineage string
	link    tether.Link
	held    []held
	version atomic.Int64 // of the secrets
	mu      sync.Mutex   // for closed and what the gateway has while secrets change
	closed  bool
	// err is why nothing is served; the other fields are not set then.
	err error
}

// Apply replaces the policy. See sandbox.EgressSession.
func (s *session) Apply(ctx context.Context, p api.EgressPolicy) error {
	switch {
	case s.err != nil && p.Opens():
		return s.err
	case s.err != nil:
		return nil
	}
	if p.Opens() {
		// First what needs nothing of the guest: a secret that was taken must not stay usable
		// for as long as the guest delays the rest.
		if err := s.grant(ctx); err != nil {
			return err
		}
		if err := s.trust(ctx); err != nil {
			return err
		}
	}
	if err := s.setHeaders(p.Headers); err != nil {
		return err
	}
	return s.gateway.Apply(p)
}

// trust makes the programs of the sandbox trust the authority of its lineage.
func (s *session) trust(ctx context.Context) error {
	ca, err := s.server.cfg.Authority.CA(s.lineage)
	if err != nil {
		return err
	}
	guest := envd.NewClient(envd.ClientConfig{Dial: s.link.Open})
	defer guest.Close()
	err = guest.Trust(ctx, ca.PEM())
	var refusal *envd.Error
	if errors.As(err, &refusal) && refusal.Code == envd.CodeInternal {
		// The programs of the sandbox may have changed its files. Those that use another
		// trust store work.
		s.server.cfg.Logger.Warn("some trust stores of a sandbox could not be changed", "sandbox", s.lineage, "reason", refusal.Message)
		return nil
	}
	return err
}

// Close ends every connection. See sandbox.EgressSession.
func (s *session) Close() {
	if s.server != nil {
		s.server.mu.Lock()
		delete(s.server.sessions, s)
		delete(s.server.ruled, s)
		s.server.mu.Unlock()
	}
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	if s.gateway != nil {
		s.gateway.Close()
	}
}
