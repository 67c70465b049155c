package manager

import (
	"context"
	"errors"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox/choice"
	"hortus.dev/internal/sandbox/life"
)

// Pause pauses a sandbox in memory; Resume lets it continue. Its deadline still holds.
// Pausing a paused sandbox does nothing.
func (m *Manager) Pause(ctx context.Context, id api.SandboxID) (api.Sandbox, error) {
	l, err := m.here(ctx, id)
	if err != nil {
		return api.Sandbox{}, err
	}
	step, err := m.fire(ctx, l, life.Pause)
	if err != nil || step.Answer == life.Ignore {
		return l.Row(), err
	}
	if err := l.machine.Pause(ctx); err != nil {
		l.Fire(life.PauseFailed, nil)
		return l.Row(), err
	}
	err = m.done(ctx, l, life.PauseDone)
	return l.Row(), err
}

// done reports to a sandbox that work is done, and performs what follows.
func (c *core) done(ctx context.Context, l *live, e life.Event) error {
	step := l.Fire(e, nil)
	if step.Answer != life.Go { // it was ended meanwhile
		return refused(l)
	}
	return c.do(ctx, l, step, note{})
}

// Resume lets a paused sandbox continue, from memory or from disk.
func (m *Manager) Resume(ctx context.Context, id api.SandboxID) (api.Sandbox, error) {
	l, row, err := m.find(ctx, id)
	switch {
	case err != nil:
		return api.Sandbox{}, err
	case l != nil:
		err := m.resume(ctx, l)
		return l.Row(), err
	case suspended(row):
		return m.resumeFromDisk(ctx, row, 0)
	}
	return api.Sandbox{}, ended(row)
}

// resume resumes a sandbox that is paused in memory.
func (c *core) resume(ctx context.Context, l *live) error {
	step, err := c.fire(ctx, l, life.Resume)
	if err != nil || step.Answer == life.Ignore {
		return err
	}
	if err := l.machine.Resume(ctx); err != nil {
		l.Fire(life.ResumeFailed, nil)
		return err
	}
	if err := l.egress.Retry(ctx); err != nil {
		if perr := l.machine.Pause(ctx); perr != nil { // it runs and connects to nothing
			return errors.Join(err, perr, c.done(ctx, l, life.ResumeDone))
		}
		l.Fire(life.ResumeFailed, nil)
		return err
	}
	if l.shut {
		l.gate.Open()
		l.shut = false
	}
	return c.done(ctx, l, life.ResumeDone)
}

// SetTTL sets the deadline to ttl from now, also to an earlier time.
func (m *Manager) SetTTL(ctx context.Context, id api.SandboxID, ttl time.Duration) (api.Sandbox, error) {
	if ttl <= 0 {
		return api.Sandbox{}, api.Errorf(api.KindInvalid, "time to live of %s is not positive", ttl)
	}
	if _, err := choice.TTL(ttl.Milliseconds()); err != nil {
		return api.Sandbox{}, err
	}
	return m.change(ctx, id, func(l *live) life.Step { return l.SetTTL(ttl) })
}

// Extend moves the deadline to ttl from now, unless it is later already.
func (m *Manager) Extend(ctx context.Context, id api.SandboxID, ttl time.Duration) (api.Sandbox, error) {
	if err := choice.NewTTL(ttl); err != nil {
		return api.Sandbox{}, err
	}
	return m.change(ctx, id, func(l *live) life.Step { return l.Extend(ttl) })
}

// Held notes that a sandbox lives only as long as a connection to this daemon: no other
// daemon takes it over.
func (m *Manager) Held(ctx context.Context, id api.SandboxID) error {
	return m.core.held(ctx, id)
}

func (c *core) held(ctx context.Context, id api.SandboxID) error {
	_, err := c.change(ctx, id, func(l *live) life.Step {
		return l.Fire(life.Change, func(row *api.Sandbox) { row.Held = true })
	})
	return err
}

// change changes the row of a live sandbox and stores it.
func (c *core) change(ctx context.Context, id api.SandboxID, edit func(*live) life.Step) (api.Sandbox, error) {
	l, err := c.here(ctx, id)
	if err != nil {
		return api.Sandbox{}, err
	}
	if edit(l).Answer == life.Refuse {
		return l.Row(), refused(l)
	}
	err = c.store(ctx, l)
	return l.Row(), err
}
