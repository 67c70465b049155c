package sandbox

import (
	"context"
	"time"

	"hortus.dev/api"
)

const (
	// pauseTries and pauseAgain bound how long a sandbox outlives its deadline that
	// cannot be paused as was asked for: it is killed then.
	pauseTries = 3
	pauseAgain = 2 * time.Second
	// drift is how far a row's deadline may be from the real one: what the wall
	// clock was set by beyond it is written down.
	drift = time.Second
)

// clock counts to a deadline on the processor's own clock, which nobody can set:
// neither a person nor a time server makes a sandbox live longer or shorter. The
// row tells the same instant by the wall clock, for people and for the next daemon.
// It does not count while the machine sleeps, as nothing in a sandbox does.
type clock struct {
	from time.Time // the zero value is a clock that does not run
	ttl  time.Duration
}

// set has it run for ttl from now.
func (c *clock) set(ttl time.Duration) { c.from, c.ttl = time.Now(), ttl }

// left is how long it is to the deadline; below 0 after it.
func (c *clock) left() time.Duration { return c.ttl - time.Since(c.from) }

func (l *live) left() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.clock.left()
}

// lives begins the time of a new sandbox: what its row says counts from the row's own
// instant, wherever the wall clock goes while it starts.
func (l *live) lives() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clock.set(l.row.ExpiresAt.Sub(l.row.CreatedAt))
}

// wall is the time that people see, without the processor's own beside it.
func (m *Manager) wall() time.Time { return m.now().UTC().Round(0) }

// expireIn moves a sandbox's deadline to ttl from now. The caller holds l.mu, or is
// the only one who knows the sandbox.
func (m *Manager) expireIn(l *live, ttl time.Duration) {
	l.clock.set(ttl)
	l.row.ExpiresAt = m.wall().Add(ttl)
	select {
	case l.moved <- struct{}{}:
	default: // watch has not looked at an earlier move yet; it will see this one
	}
}

// restate writes a sandbox's deadline down again when the wall clock was set, so
// that its row tells the truth to whoever reads it, a later daemon included.
func (m *Manager) restate(l *live) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.settled || l.reason != "" || l.park != nil {
		return
	}
	if m.correct(l) {
		m.storeSandbox(l.row)
	}
}

// correct has the row of a sandbox that runs tell its deadline by the wall clock as it
// is now, and says whether it did not. What is stored of a row goes by that: between
// two looks the clock may have been set. The caller holds l.mu.
func (m *Manager) correct(l *live) bool {
	if l.clock.from.IsZero() {
		return false
	}
	due := m.wall().Add(l.clock.left())
	if off := due.Sub(l.row.ExpiresAt.Round(0)); -drift < off && off < drift {
		return false
	}
	l.row.ExpiresAt = due
	return true
}

// Extend moves the deadline to ttl from now, unless it is later already.
func (m *Manager) Extend(ctx context.Context, id api.SandboxID, ttl time.Duration) (api.Sandbox, error) {
	if err := checkNewTTL(ttl); err != nil {
		return api.Sandbox{}, err
	}
	return m.change(ctx, id, func(l *live) error {
		if l.clock.left() < ttl {
			m.expireIn(l, ttl)
		}
		return nil
	})
}

// checkNewTTL checks a time to live that was asked for.
func checkNewTTL(ttl time.Duration) error {
	if ttl <= 0 {
		return api.Errorf(api.KindInvalid, "time to live of %s is not above 0", ttl)
	}
	// A part of a millisecond is a whole one, since 0 means the default.
	_, err := checkTTL(max(ttl.Milliseconds(), 1))
	return err
}

// leftOf is how long a sandbox lives that goes on from disk and was given no other
// time: what it had left when it was paused. One that was paused at its deadline has
// nothing left, and gets what a new one gets.
func leftOf(row api.Sandbox, s api.Snapshot) time.Duration {
	left := row.ExpiresAt.Sub(s.CreatedAt)
	if left < time.Second && row.OnExpiry.Pauses() {
		return api.DefaultTTL
	}
	return min(max(left, time.Second), api.MaxTTL)
}

// checkExpiry says whether what is to happen at the deadline can happen here.
func (m *Manager) checkExpiry(ctx context.Context, e api.Expiry, w *wish) error {
	switch e {
	case "", api.ExpiryKill:
		return nil
	case api.ExpiryPause, api.ExpiryPauseFiles:
	default:
		return api.Errorf(api.KindInvalid, "onExpiry %.40q is neither %q nor %q nor %q", e, api.ExpiryKill, api.ExpiryPause, api.ExpiryPauseFiles)
	}
	if _, err := m.snapshots(); err != nil {
		return err
	}
	r, ok := w.backend.(Restorer)
	if e == api.ExpiryPauseFiles && ok {
		_, err := r.Mark(ctx, api.SnapshotFiles)
		return err
	}
	a, has := w.report.Has(api.CapCheckpoint)
	if !ok || !has {
		return api.Errorf(api.KindUnsupported, "a sandbox on the %s backend cannot be paused to disk at its deadline (onExpiry %q): %s (capability %s)",
			w.backend.Name(), e, a.Reason, api.CapCheckpoint).WithHint("hortus doctor shows what this host can do")
	}
	return nil
}

// pauseExpired pauses a sandbox to disk because its time is up.
func (m *Manager) pauseExpired(l *live) error {
	row := l.snapshot()
	if row.State == api.SandboxPaused { // in memory, which is not what was asked for
		if _, err := m.Resume(m.ctx, row.ID); err != nil {
			return err
		}
	}
	_, err := m.pauseToDisk(m.ctx, row.ID, row.OnExpiry == api.ExpiryPauseFiles)
	return err
}
