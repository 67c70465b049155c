package access

import (
	"context"
	"iter"

	"hortus.dev/api"
	"hortus.dev/api/plan"
	"hortus.dev/api/session"
)

// Log reads events.
type Log interface {
	Follow(ctx context.Context, s api.Stream, after int64) iter.Seq2[api.Event, error]
	Read(ctx context.Context, s api.Stream, after int64, limit int) ([]api.Event, error)
}

// Events guards the log: a stream is that of the owner of its sandbox, task, session or plan.
type Events struct {
	log       Log
	sandboxes *Sandboxes
	tasks     *Tasks
	sessions  *Sessions
	plans     *Plans
}

// NewEvents guards a log.
func NewEvents(log Log, sandboxes *Sandboxes, tasks *Tasks, sessions *Sessions, plans *Plans) *Events {
	return &Events{log, sandboxes, tasks, sessions, plans}
}

// Follow yields the events of a stream of the caller's; for another's, and for one
// that never was, an error alone.
func (e *Events) Follow(ctx context.Context, s api.Stream, after int64) iter.Seq2[api.Event, error] {
	if err := e.may(ctx, s); err != nil {
		return func(yield func(api.Event, error) bool) { yield(api.Event{}, err) }
	}
	return e.log.Follow(ctx, s, after)
}

// Read returns what is stored of a stream of the caller's.
func (e *Events) Read(ctx context.Context, s api.Stream, after int64, limit int) ([]api.Event, error) {
	if err := e.may(ctx, s); err != nil {
		return nil, err
	}
	return e.log.Read(ctx, s, after, limit)
}

func (e *Events) may(ctx context.Context, s api.Stream) error {
	p, err := caller(ctx)
	if err != nil || p.Role == api.RoleAdmin {
		return err
	}
	switch s.Kind {
	case api.StreamSandbox:
		_, err = e.sandboxes.get(ctx, p, api.SandboxID(s.ID))
	case api.StreamTask:
		_, err = e.tasks.get(ctx, p, api.TaskID(s.ID))
	case session.Stream:
		err = e.sessions.mine(ctx, p, api.SessionID(s.ID))
	case plan.Stream:
		err = e.plans.mine(ctx, p, api.PlanID(s.ID))
	default:
		// What it belongs to is not known, so it is nobody's.
		err = denied("reading the events of a " + string(s.Kind))
	}
	return err
}
