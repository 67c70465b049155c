package outgoing

import (
	"context"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/tether"
)

// applyTimeout limits how long a policy may take to apply.
const applyTimeout = 30 * time.Second

// Config is what a session needs. Without a Server nothing is served. All other fields are
// required.
type Config struct {
	Server sandbox.EgressServer
	// Row returns the current row of the sandbox.
	Row func() api.Sandbox
	// Link returns the link to the guest. It is called once the sandbox has a machine.
	Link func() tether.Link
	// Commands returns the commands that are running in the sandbox.
	Commands func() []string
}

// Session serves the outgoing connections of one live sandbox by the policy in its row. Its
// methods may be called from several goroutines at once. Changes of the policy are made one
// after the other.
type Session struct {
	cfg  Config
	turn chan struct{} // holds one token while somebody begins, applies or closes

	// ctx ends when the session is to be closed.
	ctx    context.Context
	cancel context.CancelFunc
	closed sync.Once

	// What follows belongs to the holder of the turn.
	serving sandbox.EgressSession // nil before it is begun, and after the end
	stale   bool                  // the policy in the row is not applied, or may not be
}

// New returns the session of a sandbox. It serves nothing yet.
func New(cfg Config) *Session {
	s := &Session{cfg: cfg, turn: make(chan struct{}, 1)}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// take waits for the turn. The session is not closed then.
func (s *Session) take(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
		if s.ctx.Err() == nil {
			return nil
		}
		s.pass()
	case <-ctx.Done():
		if s.ctx.Err() == nil {
			return ctx.Err()
		}
	case <-s.ctx.Done():
	}
	return api.Errorf(api.KindUnavailable, "the sandbox serves no outgoing connections any more")
}

func (s *Session) pass() { <-s.turn }

// Begin begins to serve, unless the session was begun or is closed. Without I/O.
func (s *Session) Begin() {
	if s.take(s.ctx) == nil {
		s.begin()
		s.pass()
	}
}

// Adopt is Begin of a sandbox that another daemon served. Whether that one had applied the policy
// is not known: Retry does it again.
func (s *Session) Adopt() {
	if s.take(s.ctx) == nil {
		s.begin()
		s.stale = s.serving != nil && opens(s.cfg.Row())
		s.pass()
	}
}

// begin is Begin of the holder of the turn.
func (s *Session) begin() {
	if row := s.cfg.Row(); s.serving == nil && s.cfg.Server != nil && row.Egress != api.EgressHost {
		s.serving = s.cfg.Server.Serve(row, s.cfg.Link(), s.cfg.Commands)
	}
}

// opens reports whether the policy in a row allows anything.
func opens(row api.Sandbox) bool { return row.EgressPolicy != nil && row.EgressPolicy.Opens() }

// Open begins to serve a policy that allows something, and returns when it is applied. Another
// policy is left to Begin.
func (s *Session) Open(ctx context.Context) error {
	if !opens(s.cfg.Row()) {
		return nil
	}
	if err := s.take(ctx); err != nil {
		return err
	}
	defer s.pass()
	return s.apply(ctx)
}

// Retry applies the policy again if that failed before or may not have been done.
func (s *Session) Retry(ctx context.Context) error {
	if err := s.take(ctx); err != nil {
		return err
	}
	defer s.pass()
	if !s.stale {
		return nil
	}
	return s.apply(ctx)
}

// Change calls store, which changes the policy in the row, and applies it. stored reports whether
// store succeeded; an error beside it is that of the application, and the sandbox denies
// everything until Retry or another Change succeeds.
func (s *Session) Change(ctx context.Context, store func() error) (stored bool, err error) {
	if err := s.take(ctx); err != nil {
		return false, err
	}
	defer s.pass()
	if err := store(); err != nil {
		return false, err
	}
	// A caller who disconnects does not stop what is stored from being in effect.
	return true, s.apply(context.WithoutCancel(ctx))
}

// apply applies the policy of the row. The caller holds the turn.
func (s *Session) apply(ctx context.Context) error {
	s.begin()
	if s.serving == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	row := s.cfg.Row()
	s.serving.Hold(row)
	err := s.serving.Apply(ctx, policyOf(row))
	s.stale = err != nil
	if err == nil {
		return nil
	}
	// What an earlier policy allowed must not stay open. This needs nothing of the guest.
	if s.serving.Apply(context.WithoutCancel(ctx), api.EgressPolicy{}) != nil {
		s.serving.Close()
		s.serving = nil
	}
	return api.Errorf(api.KindOf(err), "apply the egress policy: %w", err).WithHint("%s", api.HintOf(err))
}

// Close closes every connection and returns when none is left. Nothing is served afterwards. It
// is idempotent.
func (s *Session) Close() {
	s.closed.Do(func() {
		s.cancel() // the holder of the turn gives up
		s.turn <- struct{}{}
		if s.serving != nil {
			s.serving.Close()
			s.serving = nil
		}
		s.pass()
	})
}
