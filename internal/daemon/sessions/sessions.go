package sessions

import (
	"context"
	"errors"
	"log/slog"

	"hortus.dev/api"
	words "hortus.dev/api/session"
	"hortus.dev/internal/storage/workspace"
	"hortus.dev/internal/task/sandboxes"
	"hortus.dev/internal/task/session"
)

// Sessions are the sessions of a daemon, with the sandboxes that wait for their next turns.
type Sessions struct {
	*session.Service
	Sandboxes *sandboxes.Sessions
	log       *slog.Logger
}

// Open makes what keeps the sandboxes. Nothing waits there before Begin.
func Open(workspaces *workspace.Store, checkpoints sandboxes.Checkpoints, stopper sandboxes.Stopper, stiller sandboxes.Stiller, log *slog.Logger) *Sessions {
	s := &Sessions{log: log}
	s.Sandboxes = sandboxes.NewSessions(sandboxes.SessionsConfig{
		Workspaces: workspaces, Checkpoints: checkpoints, Sandboxes: stopper, Stiller: stiller, Logger: log,
		Changed: func(ctx context.Context, id api.SessionID, state words.State, reason string) {
			s.Changed(ctx, id, state, reason)
		},
		Restored: func(ctx context.Context, id api.SessionID, e words.RestoredEvent) { s.Service.Restored(ctx, id, e) },
	})
	return s
}

// Begin makes what says the messages. cfg is complete but for the sandboxes and the logger.
func (s *Sessions) Begin(cfg session.Config) {
	cfg.Sandboxes, cfg.Logger = s.Sandboxes, s.log
	s.Service = session.New(cfg)
}

// Recover takes over the sessions of owners that have ended. What cannot be taken over is tried by the next daemon.
func (s *Sessions) Recover(ctx context.Context, gone func(api.OwnerID) bool) {
	if _, err := s.Service.Recover(ctx, gone); err != nil {
		s.log.Error("recovery of sessions is incomplete", "error", err)
	}
}

// Close cancels the turns that run and ends the sandboxes that wait.
func (s *Sessions) Close(ctx context.Context) error {
	var err error
	if s.Service != nil {
		err = s.Service.Close(ctx)
	}
	return errors.Join(err, s.Sandboxes.Close(ctx))
}
