package manager

import (
	"context"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox/choice"
	"hortus.dev/internal/sandbox/life"
)

// Connect resumes a sandbox, from memory or from disk, unless it is running, and reports whether
// it was resumed. A running sandbox lives for at least ttl from now, a resumed one for ttl from
// now. With a ttl of 0 the deadline does not change, or the remaining time counts. Connect waits
// for concurrent changes of the sandbox (a pause, a resume, an end).
//
// Errors: KindUnavailable for a sandbox that has ended, KindNotFound, those of
// Resume.
func (m *Manager) Connect(ctx context.Context, id api.SandboxID, ttl time.Duration) (row api.Sandbox, resumed bool, err error) {
	if ttl != 0 {
		if err := choice.NewTTL(ttl); err != nil {
			return row, false, err
		}
	}
	for {
		if err := m.awaitStill(ctx, id); err != nil {
			return row, false, err
		}
		l, here := m.lookup(id)
		if here {
			row = l.Row()
		} else if row, err = m.cfg.Rows.Sandbox(ctx, id); err != nil {
			return row, false, err
		}
		before := row.State
		row, resumed, err = m.connect(ctx, row, here, ttl)
		if api.KindOf(err) != api.KindConflict {
			return row, resumed, err
		}
		// Another caller may have been faster.
		now, gerr := m.Get(ctx, id)
		if gerr != nil || now.State == before && m.inMotion(id) == nil {
			return row, false, err
		}
	}
}

// Wake is Connect for a request to the sandbox itself, whose sender may have no API key: the
// sandbox lives for the default time, limited by the key of its creation.
func (m *Manager) Wake(ctx context.Context, id api.SandboxID) error {
	row, err := m.Get(ctx, id)
	if err != nil {
		return err
	}
	ttl := api.DefaultTTL
	if row.MaxTTLMS > 0 {
		ttl = min(ttl, time.Duration(row.MaxTTLMS)*time.Millisecond)
	}
	_, _, err = m.Connect(ctx, id, ttl)
	return err
}

// connect is Connect of a sandbox that was in a state a moment ago, and live here or
// not.
func (m *Manager) connect(ctx context.Context, row api.Sandbox, here bool, ttl time.Duration) (api.Sandbox, bool, error) {
	switch {
	case row.State.Final():
		return row, false, api.Errorf(api.KindUnavailable, "sandbox %s is %s%s", row.ID, row.State, because(row.Reason))
	case row.State == api.SandboxPaused && !here:
		got, err := m.resumeFromDisk(ctx, row, ttl)
		return got, err == nil, err
	case row.State == api.SandboxPaused:
		got, err := m.Resume(ctx, row.ID)
		if err == nil && ttl > 0 {
			got, err = m.SetTTL(ctx, row.ID, ttl)
		}
		return got, err == nil, err
	case ttl > 0:
		got, err := m.Extend(ctx, row.ID, ttl)
		return got, false, err
	}
	return row, false, nil
}

// awaitStill waits until no change of a sandbox is in progress.
func (m *Manager) awaitStill(ctx context.Context, id api.SandboxID) error {
	for {
		changed := m.inMotion(id)
		if changed == nil {
			return nil
		}
		if err := await(ctx, changed); err != nil {
			return err
		}
	}
}

// inMotion returns a channel that is closed when the state of a sandbox changes in which
// work is under way; nil if there is none.
func (c *core) inMotion(id api.SandboxID) <-chan struct{} {
	l, ok := c.lookup(id)
	if !ok {
		return nil
	}
	state, changed := l.Stand()
	switch {
	case state.Final(): // it is being taken out of the table
		return l.ended
	case state.Busy() && state != life.Saving:
		return changed
	}
	return nil
}
