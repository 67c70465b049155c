package life

import (
	"context"
	"sync"
	"time"

	"hortus.dev/api"
)

// Rows is where the row of a sandbox is stored.
type Rows interface {
	UpdateSandbox(ctx context.Context, s api.Sandbox) error
}

// Sandbox is the state and the row of one sandbox. Its methods may be called from several
// goroutines at once; none of them but Store performs I/O.
type Sandbox struct {
	rows  Rows
	now   func() time.Time
	moved chan struct{} // holds one token when the deadline has moved

	mu      sync.Mutex
	state   State
	changed chan struct{} // closed at every change of the state, and made anew
	row     api.Sandbox
	reason  string // why it is ending; set with the state
	clock   clock
	// What follows orders the writes of the row.
	version uint64        // of the row
	stored  uint64        // the version that is stored
	writing chan struct{} // closed when the write under way is over; nil without one
}

// New returns a sandbox in a state. Its row counts as stored. now returns the wall-clock time.
func New(rows Rows, now func() time.Time, row api.Sandbox, state State) *Sandbox {
	return &Sandbox{rows: rows, now: now, row: row, state: state, changed: make(chan struct{}), moved: make(chan struct{}, 1)}
}

// Row returns the current row.
func (s *Sandbox) Row() api.Sandbox {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.row
}

// State returns the current state.
func (s *Sandbox) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// Stand returns the state, and a channel that is closed when it changes.
func (s *Sandbox) Stand() (State, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state, s.changed
}

// Reason returns why the sandbox is ending or has ended; empty before.
func (s *Sandbox) Reason() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reason
}

// Edit changes the row in any state.
func (s *Sandbox) Edit(edit func(row *api.Sandbox)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	edit(&s.row)
	s.version++
}

// Fire delivers an event to the sandbox. Where the answer is Go or, for a Change, Ignore,
// edit, which may be nil, changes the row together with the state.
func (s *Sandbox) Fire(e Event, edit func(row *api.Sandbox)) Step {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fire(e, edit)
}

// End is Fire of an event that ends the sandbox, for a reason. The first reason counts.
func (s *Sandbox) End(e Event, reason string) Step {
	s.mu.Lock()
	defer s.mu.Unlock()
	step := Next(s.state, e)
	if step.Answer == Go && s.reason == "" {
		s.reason = reason
	}
	return s.fire(e, nil)
}

func (s *Sandbox) fire(e Event, edit func(row *api.Sandbox)) Step {
	step := Next(s.state, e)
	if step.Answer != Go && !(step.Answer == Ignore && e == Change) {
		return step
	}
	if edit != nil {
		edit(&s.row)
		s.version++
	}
	if step.Answer == Go {
		if row := stateTexts[step.To].row; row != "" && row != s.row.State {
			s.row.State = row
			s.version++
		}
		s.state = step.To
		close(s.changed)
		s.changed = make(chan struct{})
	}
	return step
}

// Store stores the current row or a later one. Rows are stored in order, one at a time, without
// the lock.
func (s *Sandbox) Store(ctx context.Context) error {
	s.mu.Lock()
	s.correct()
	want := s.version
	for s.stored < want {
		if busy := s.writing; busy != nil {
			s.mu.Unlock()
			select {
			case <-busy:
			case <-ctx.Done():
				return ctx.Err()
			}
			s.mu.Lock()
			continue
		}
		done := make(chan struct{})
		s.writing = done
		row, version := s.row, s.version
		s.mu.Unlock()
		err := s.rows.UpdateSandbox(ctx, row)
		s.mu.Lock()
		s.writing = nil
		close(done)
		if err != nil {
			s.mu.Unlock()
			return err
		}
		s.stored = version
	}
	s.mu.Unlock()
	return nil
}
