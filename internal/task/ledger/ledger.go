package ledger

import (
	"context"
	"fmt"
	"sync"
	"time"

	"hortus.dev/api"
)

// Emitter takes facts, in order.
type Emitter interface {
	Emit(ctx context.Context, t api.EventType, data any)
}

// Ledger tells what is done, and keeps it for the receipt. Steps of several repositories end side by side.
type Ledger struct {
	emit Emitter
	now  func() time.Time

	mu            sync.Mutex
	done, skipped []string
	// left counts processes whose end was not proven.
	left int
}

// New makes an empty ledger that tells its facts to an emitter.
func New(emit Emitter, now func() time.Time) *Ledger { return &Ledger{emit: emit, now: now} }

// Tell emits a fact.
func (l *Ledger) Tell(ctx context.Context, t api.EventType, data any) { l.emit.Emit(ctx, t, data) }

// Step does one thing that people can see begin and end.
func (l *Ledger) Step(ctx context.Context, e api.RepoStepEvent, do func() (detail string, err error)) error {
	l.Tell(ctx, api.EventRepoStep, e)
	if err := ctx.Err(); err != nil {
		l.Note(nil, []string{name(e)})
		return err
	}
	start := l.now()
	detail, err := do()
	e.Done, e.MS = true, l.now().Sub(start).Milliseconds()
	if detail != "" {
		e.Detail = detail
	}
	l.Ended(ctx, e, err)
	return err
}

// Ended tells of the end of a step.
func (l *Ledger) Ended(ctx context.Context, e api.RepoStepEvent, err error) {
	if err != nil {
		e.Error = err.Error()
		l.Note(nil, []string{name(e)})
	} else {
		l.Note([]string{name(e)}, nil)
	}
	l.Tell(ctx, api.EventRepoStep, e)
}

// Recalled notes a step that an earlier daemon did.
func (l *Ledger) Recalled(e api.RepoStepEvent) { l.Note([]string{name(e)}, nil) }

// Note adds names of steps.
func (l *Ledger) Note(done, skipped []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done, l.skipped = append(l.done, done...), append(l.skipped, skipped...)
}

// Closed counts what a sandbox left behind.
func (l *Ledger) Closed(left int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.left += left
}

// Receipt is what was done and what was not.
func (l *Ledger) Receipt() *api.Receipt {
	l.mu.Lock()
	defer l.mu.Unlock()
	return &api.Receipt{Completed: nonNil(l.done), Skipped: nonNil(l.skipped), ProcessesLeft: l.left}
}

// Set replaces everything.
func (l *Ledger) Set(done, skipped []string, left int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done, l.skipped, l.left = done, skipped, left
}

func nonNil(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

// name is a step as the receipt has it.
func name(e api.RepoStepEvent) string {
	s := e.Step
	if e.Repository != "" {
		s += " of " + e.Repository
	}
	if e.Round > 0 {
		s += fmt.Sprintf(", round %d", e.Round)
	}
	return s
}

// Emitter is where the facts go.
func (l *Ledger) Emitter() Emitter { return l.emit }
