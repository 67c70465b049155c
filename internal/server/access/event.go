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
	// Changes yields batches of streams that got events from the call on. A nil batch stands for any.
	Changes(ctx context.Context) iter.Seq[[]api.Stream]
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

// maxKnown is the maximum number of streams of which Changes remembers whether they are the caller's.
const maxKnown = 4096

// Changes yields batches of streams of the caller's that got events from the call on. A nil batch stands for any of them.
func (e *Events) Changes(ctx context.Context) (iter.Seq[[]api.Stream], error) {
	if _, err := caller(ctx); err != nil {
		return nil, err
	}
	all := e.log.Changes(ctx)
	return func(yield func([]api.Stream) bool) {
		mine := map[api.Stream]bool{}
		for batch := range all {
			var own []api.Stream
			for _, s := range batch {
				is, known := mine[s]
				if !known {
					if len(mine) >= maxKnown {
						clear(mine)
					}
					is = e.may(ctx, s) == nil
					mine[s] = is
				}
				if is {
					own = append(own, s)
				}
			}
			if (batch == nil || own != nil) && !yield(own) {
				return
			}
		}
	}, nil
}

func (e *Events) may(ctx context.Context, s api.Stream) error {
	p, err := caller(ctx)
	if err != nil || p.Role == api.RoleAdmin {
		return err
	}
	switch s.Kind {
	case api.StreamSandbox, api.StreamCommands:
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
