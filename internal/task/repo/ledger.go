package repo

import (
	"context"
	"fmt"
	"sync"
	"time"

	"hortus.dev/api"
)

// ledger tells what is done, and keeps it for the receipt. Steps of several repositories end side by side.
type ledger struct {
	emit Emitter
	now  func() time.Time

	mu            sync.Mutex
	done, skipped []string
	// left counts processes whose end was not proven.
	left int
}

// tell emits a fact.
func (l *ledger) tell(ctx context.Context, t api.EventType, data any) { l.emit.Emit(ctx, t, data) }

// step does one thing that people can see begin and end.
func (l *ledger) step(ctx context.Context, e api.RepoStepEvent, do func() (detail string, err error)) error {
	l.tell(ctx, api.EventRepoStep, e)
	if err := ctx.Err(); err != nil {
		l.note(nil, []string{name(e)})
		return err
	}
	start := l.now()
	detail, err := do()
	e.Done, e.MS = true, l.now().Sub(start).Milliseconds()
	if detail != "" {
		e.Detail = detail
	}
	l.ended(ctx, e, err)
	return err
}

// ended tells of the end of a step.
func (l *ledger) ended(ctx context.Context, e api.RepoStepEvent, err error) {
	if err != nil {
		e.Error = err.Error()
		l.note(nil, []string{name(e)})
	} else {
		l.note([]string{name(e)}, nil)
	}
	l.tell(ctx, api.EventRepoStep, e)
}

// recalled notes a step that an earlier daemon did.
func (l *ledger) recalled(e api.RepoStepEvent) { l.note([]string{name(e)}, nil) }

// note adds names of steps.
func (l *ledger) note(done, skipped []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done, l.skipped = append(l.done, done...), append(l.skipped, skipped...)
}

// closed counts what a sandbox left behind.
func (l *ledger) closed(left int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.left += left
}

// receipt is what was done and what was not.
func (l *ledger) receipt() *api.Receipt {
	l.mu.Lock()
	defer l.mu.Unlock()
	return &api.Receipt{Completed: nonNil(l.done), Skipped: nonNil(l.skipped), ProcessesLeft: l.left}
}

// set replaces everything.
func (l *ledger) set(done, skipped []string, left int) {
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
