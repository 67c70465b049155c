package life

import (
	"time"

	"hortus.dev/api"
)

// drift is how far the deadline in a row may be from the real one: a wall clock that was
// set by more than that makes the row be corrected.
const drift = time.Second

// clock measures the time to a deadline with a monotonic clock, so that a change of the wall
// clock does not change a sandbox's life. The row has the same instant by the wall clock, for
// people and for the next daemon. The clock does not count while the machine sleeps.
type clock struct {
	from time.Time // the zero value is a clock that does not run
	ttl  time.Duration
}

func (c *clock) set(ttl time.Duration) { c.from, c.ttl = time.Now(), ttl }
func (c *clock) left() time.Duration   { return c.ttl - time.Since(c.from) }

// StartClock starts the clock of a sandbox that has ttl left, and leaves its row as it is.
func (s *Sandbox) StartClock(ttl time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock.set(ttl)
}

// Left is the time until the deadline; negative after it.
func (s *Sandbox) Left() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clock.left()
}

// Moved holds one token after the deadline has moved.
func (s *Sandbox) Moved() <-chan struct{} { return s.moved }

// Expire moves the deadline to ttl from now, whatever the state.
func (s *Sandbox) Expire(ttl time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire(ttl)
}

// SetTTL moves the deadline to ttl from now, if the state takes a [Change].
func (s *Sandbox) SetTTL(ttl time.Duration) Step {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fire(Change, func(*api.Sandbox) { s.expire(ttl) })
}

// Extend is SetTTL that leaves a later deadline as it is.
func (s *Sandbox) Extend(ttl time.Duration) Step {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fire(Change, func(*api.Sandbox) {
		if s.clock.left() < ttl {
			s.expire(ttl)
		}
	})
}

func (s *Sandbox) expire(ttl time.Duration) {
	s.clock.set(ttl)
	s.row.ExpiresAt = s.wall().Add(ttl)
	s.version++
	select {
	case s.moved <- struct{}{}:
	default: // the watcher has not handled an earlier change yet
	}
}

// Correct makes the row have the deadline by the wall clock as it is now, where that was
// set, and reports whether the row has changed.
func (s *Sandbox) Correct() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.correct()
}

func (s *Sandbox) correct() bool {
	if s.clock.from.IsZero() || s.state == Suspending || s.state == Ending || s.state.Final() {
		return false
	}
	due := s.wall().Add(s.clock.left())
	if off := due.Sub(s.row.ExpiresAt.Round(0)); -drift < off && off < drift {
		return false
	}
	s.row.ExpiresAt = due
	s.version++
	return true
}

// wall returns the wall-clock time without the monotonic reading.
func (s *Sandbox) wall() time.Time { return s.now().UTC().Round(0) }
