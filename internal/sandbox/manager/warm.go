package manager

import (
	"context"

	"hortus.dev/api"
)

// KeepWarm resolves a request, its template included, and keeps guests ready for sandboxes
// of its kind from then on: template, isolation and limits. Without a pool that is all.
func (m *Manager) KeepWarm(ctx context.Context, req api.CreateSandbox) error {
	p, err := m.plan(ctx, &req)
	if err == nil {
		m.pool.Keep(p.want(), true)
	}
	return err
}

// Pooled returns the number of guests that the pool keeps for sandboxes of this request's kind: 0
// if its backend cannot boot guests ahead.
func (m *Manager) Pooled(ctx context.Context, req api.CreateSandbox) (int, error) {
	p, err := m.plan(ctx, &req)
	if err != nil {
		return 0, err
	}
	return m.pool.Keeps(p.want()), nil
}

// Warm counts the guests that wait for a sandbox, and those that should.
func (m *Manager) Warm() (ready, want int) {
	ready, want, _ = m.pool.Level()
	return ready, want
}

// AwaitWarm waits until as many guests wait as should.
func (m *Manager) AwaitWarm(ctx context.Context) error {
	for {
		ready, want, changed := m.pool.Level()
		if ready >= want {
			return nil
		}
		if err := await(ctx, changed); err != nil {
			return err
		}
	}
}

// Cold returns why the last guest could not be booted ahead of a kind that has too few; nil
// where none failed.
func (m *Manager) Cold() error { return m.pool.Failure() }
