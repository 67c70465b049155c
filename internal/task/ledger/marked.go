package ledger

import (
	"context"

	"hortus.dev/api"
)

// Marked names its candidate in the events of one.
type Marked struct {
	Emitter
	// N is its number.
	N int
}

// Emit implements Emitter.
func (m Marked) Emit(ctx context.Context, t api.EventType, data any) {
	switch e := data.(type) {
	case api.RepoStepEvent:
		e.Candidate = m.N
		data = e
	case api.ToolEvent:
		e.Candidate = m.N
		data = e
	case api.SayEvent:
		e.Candidate = m.N
		data = e
	case api.TodoEvent:
		e.Candidate = m.N
		data = e
	case api.CompactEvent:
		e.Candidate = m.N
		data = e
	case api.ModelEvent:
		e.Candidate = m.N
		data = e
	case api.ModelRetryEvent:
		e.Candidate = m.N
		data = e
	case api.EscalationEvent:
		e.Candidate = m.N
		data = e
	}
	m.Emitter.Emit(ctx, t, data)
}
