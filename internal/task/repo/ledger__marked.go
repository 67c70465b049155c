package repo

import (
	"context"

	"hortus.dev/api"
)

// Marked names its candidate in the events of one.
type candidateEmitter struct {
	Emitter
	// N is its number.
	n int
}

// Emit implements Emitter.
func (m candidateEmitter) Emit(ctx context.Context, t api.EventType, data any) {
	switch e := data.(type) {
	case api.RepoStepEvent:
		e.Candidate = m.n
		data = e
	case api.ToolEvent:
		e.Candidate = m.n
		data = e
	case api.SayEvent:
		e.Candidate = m.n
		data = e
	case api.TodoEvent:
		e.Candidate = m.n
		data = e
	case api.CompactEvent:
		e.Candidate = m.n
		data = e
	case api.ModelEvent:
		e.Candidate = m.n
		data = e
	case api.ModelRetryEvent:
		e.Candidate = m.n
		data = e
	case api.EscalationEvent:
		e.Candidate = m.n
		data = e
	}
	m.Emitter.Emit(ctx, t, data)
}
