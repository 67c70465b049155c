package recall

import (
	"context"
	"errors"
	"sync"
	"time"

	"hortus.dev/internal/agent/loop"
	"hortus.dev/internal/task/durable"
)

// Journal is what a task, or one of its attempts, did before its daemon died. Without a run there is nothing.
type Journal struct {
	// Rec has the record; nil for none.
	Rec  *durable.Run
	told *Told
	now  func() time.Time

	mu sync.Mutex
	// unrecorded is why the journal cannot be continued.
	unrecorded error
}

// New makes the journal of a run, which may be nil, as told may be.
func New(run *durable.Run, told *Told, now func() time.Time) *Journal {
	return &Journal{Rec: run, told: told, now: now}
}

// Record executes a step of the task, or returns what it returned before the daemon died.
func Record[T any](ctx context.Context, j *Journal, name string, asked []byte, do func(context.Context, durable.Try) (T, error)) (T, error) {
	v, err := durable.Do(ctx, j.Rec, name, asked, do)
	var u *durable.Unrecorded
	if errors.As(err, &u) {
		j.Spoil(err)
	}
	return v, err
}

// Clock is the time by which a task decides: that of its journal, if it has one.
func (j *Journal) Clock() time.Time {
	if j.Rec != nil {
		return j.Rec.Now()
	}
	return j.now()
}

// Damage is why the journal cannot be continued; nil if it can.
func (j *Journal) Damage() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.unrecorded
}

// Spoil says that the journal cannot be continued.
func (j *Journal) Spoil(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.unrecorded = err
}

// Facts is where a loop tells its facts: those that were told before are not told again.
func (j *Journal) Facts(to loop.Emitter) loop.Emitter {
	if j.Rec == nil {
		return to
	}
	return remembering{to, j.told.counts(), j.Rec}
}
