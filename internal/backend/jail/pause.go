package jail

import (
	"context"

	"hortus.dev/api"
)

// Pause freezes every process.
func (m *machine) Pause(ctx context.Context) error { return m.freeze(ctx, true) }

// Resume thaws every process.
func (m *machine) Resume(ctx context.Context) error { return m.freeze(ctx, false) }

func (m *machine) freeze(ctx context.Context, on bool) error {
	if err := m.b.require(api.CapPause); err != nil {
		return err
	}
	if err := m.takeTurn(ctx); err != nil {
		return err
	}
	defer m.endTurn()
	return m.setFrozen(ctx, on)
}

// takeTurn waits until no other caller stops, leaves or saves the sandbox.
func (m *machine) takeTurn(ctx context.Context) error {
	select {
	case m.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return api.Errorf(api.KindOf(ctx.Err()), "sandbox %s is being saved: %w", m.id, ctx.Err())
	}
}

func (m *machine) endTurn() { <-m.turn }

// setFrozen freezes or thaws every process. The caller has the turn.
func (m *machine) setFrozen(ctx context.Context, on bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended() {
		return m.endedError()
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
