package jail

import (
	"context"

	"hortus.dev/api"
)

// Pause freezes every process.
func (m *machine) Pause(ctx context.Context) error { return m.freeze(ctx, true) }

// Resume thaws every process.
func (m *machine) Resume(ctx context.Context) error {
	err := m.freeze(ctx, false)
	if err == nil && m.b.cfg.Kernel != nil {
		m.b.thawOwn(ctx, m.id)
	}
	return err
}

func (m *machine) freeze(ctx context.Context, on bool) error {
	if err := m.b.require(api.CapPause); err != nil {
		return err
	}
	if err := m.turn.take(ctx, m.id); err != nil {
		return err
	}
	defer m.turn.end()
	return m.setFrozen(ctx, on)
}

// turn is held while a caller stops, leaves or saves the sandbox.
type turn chan struct{}

// take waits until no other caller has the turn.
func (t turn) take(ctx context.Context, id api.SandboxID) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return api.Errorf(api.KindOf(ctx.Err()), "sandbox %s is being saved: %w", id, ctx.Err())
	}
}

func (t turn) end() { <-t }

// setFrozen freezes or thaws every process. The caller has the turn.
func (m *machine) setFrozen(ctx context.Context, on bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended() {
		return ended(m.id)
	}
	if m.paused == on {
		return nil
	}
	change := m.group.Thaw
	if on {
		m.link.Pause(true)
		change = m.group.Freeze
	}
	if err := change(ctx); err != nil {
		if on { // it may be frozen in part
			m.group.Thaw(context.WithoutCancel(ctx))
			m.link.Pause(false)
		}
		return api.Errorf(api.KindOf(err), "sandbox %s: %w", m.id, err)
	}
	if !on {
		m.link.Pause(false)
	}
	m.paused = on
	return nil
}

func (m *machine) isPaused() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.paused
}
