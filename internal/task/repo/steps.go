package repo

import (
	"context"
	"fmt"
	"sync"
	"time"

	"hortus.dev/api"
)

// steps tells the steps of the work as events, and keeps their names for the receipt of a task that is canceled. Steps of several
// repositories end side by side.
type steps struct {
	emit Emitter
	now  func() time.Time

	mu            sync.Mutex
	done, skipped []string
	// left counts processes whose end was not proven.
	left int
}

// newSteps makes steps without any, which are reported to an emitter.
func newSteps(emit Emitter, now func() time.Time) *steps { return &steps{emit: emit, now: now} }

// tell emits a fact.
func (s *steps) tell(ctx context.Context, t api.EventType, data any) { s.emit.Emit(ctx, t, data) }

// do does one thing that people can see begin and end.
func (s *steps) do(ctx context.Context, e api.RepoStepEvent, do func() (detail string, err error)) error {
	s.tell(ctx, api.EventRepoStep, e)
	if err := ctx.Err(); err != nil {
		s.note(nil, []string{stepName(e)})
		return err
	}
	start := s.now()
	detail, err := do()
	e.Done, e.MS = true, s.now().Sub(start).Milliseconds()
	if detail != "" {
		e.Detail = detail
	}
	s.ended(ctx, e, err)
	return err
}

// ended tells of the end of a step.
func (s *steps) ended(ctx context.Context, e api.RepoStepEvent, err error) {
	if err != nil {
		e.Error = err.Error()
		s.note(nil, []string{stepName(e)})
	} else {
		s.note([]string{stepName(e)}, nil)
	}
	s.tell(ctx, api.EventRepoStep, e)
}

// recalled notes a step that an earlier daemon did.
func (s *steps) recalled(e api.RepoStepEvent) { s.note([]string{stepName(e)}, nil) }

// note adds names of steps.
func (s *steps) note(done, skipped []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done, s.skipped = append(s.done, done...), append(s.skipped, skipped...)
}

// closed counts what a sandbox left behind.
func (s *steps) closed(left int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left += left
}

// receipt is what was done and what was not.
func (s *steps) receipt() *api.Receipt {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &api.Receipt{Completed: nonNil(s.done), Skipped: nonNil(s.skipped), ProcessesLeft: s.left}
}

// set replaces everything.
func (s *steps) set(done, skipped []string, left int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done, s.skipped, s.left = done, skipped, left
}

func nonNil(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

// stepName is a step as the receipt has it.
func stepName(e api.RepoStepEvent) string {
	s := e.Step
	if e.Repository != "" {
		s += " of " + e.Repository
	}
	if e.Round > 0 {
		s += fmt.Sprintf(", round %d", e.Round)
	}
	return s
}

// emitter is where the facts go.
func (s *steps) emitter() Emitter { return s.emit }

// candidateEmitter names its candidate in the events of one.
type candidateEmitter struct {
	Emitter
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
