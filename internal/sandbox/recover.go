package sandbox

import (
	"context"
	"errors"

	"hortus.dev/api"
)

// Reclaimer is a backend that can find what it left behind without being told:
// identifiers whose directories or cgroups exist.
type Reclaimer interface {
	Orphans(ctx context.Context) ([]api.SandboxID, error)
}

// Recover brings rows and reality together after an owner has gone: every
// sandbox of an owner for which gone answers true is destroyed with proof and
// marked lost, its commands unknown; leftovers without a row are destroyed too.
// Rows of an owner that may still live are not touched. It returns how many
// sandboxes it marked.
func (m *Manager) Recover(ctx context.Context, gone func(api.OwnerID) bool) (int, error) {
	rows, err := m.cfg.Rows.ListSandboxes(ctx, false)
	if err != nil {
		return 0, err
	}
	backends := map[string]Backend{}
	for _, b := range m.cfg.Backends {
		backends[b.Name()] = b
	}
	var errs []error
	marked := 0
	keep := map[api.SandboxID]bool{}
	for _, row := range rows {
		if row.State.Final() {
			continue
		}
		if row.Owner == m.cfg.Owner || !gone(row.Owner) {
			keep[row.ID] = true
			continue
		}
		b := backends[row.Isolation]
		if b == nil {
			errs = append(errs, api.Errorf(api.KindUnsupported, "sandbox %s ran on backend %q, which this build lacks", row.ID, row.Isolation))
			continue
		}
		proof, err := b.Reclaim(ctx, row.ID)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if err := m.markLost(ctx, row, proof); err != nil {
			errs = append(errs, err)
			continue
		}
		marked++
	}
	errs = append(errs, m.reclaimOrphans(ctx, keep))
	return marked, errors.Join(errs...)
}

func (m *Manager) markLost(ctx context.Context, row api.Sandbox, proof api.Proof) error {
	execs, err := m.cfg.Rows.ListExecs(ctx, row.ID)
	if err != nil {
		return err
	}
	for _, e := range execs {
		if e.State != api.ExecRunning {
			continue
		}
		e.State, e.EndedAt = api.ExecUnknown, m.now().UTC()
		e.Exit = api.Exit{Code: -1, Cause: api.CauseLost}
		if err := m.cfg.Rows.UpdateExec(ctx, e); err != nil {
			return err
		}
	}
	row.State, row.Reason, row.EndedAt = api.SandboxLost, "its daemon ended without stopping it", m.now().UTC()
	if err := m.cfg.Rows.UpdateSandbox(ctx, row); err != nil {
		return err
	}
	m.event(row.ID, api.EventSandboxState, api.SandboxStateEvent{State: row.State, Reason: row.Reason, Proof: &proof})
	return nil
}

// reclaimOrphans destroys leftovers that no row leads to, for example of a
// database that was removed.
func (m *Manager) reclaimOrphans(ctx context.Context, keep map[api.SandboxID]bool) error {
	all, err := m.orphans(ctx, keep)
	errs := []error{err}
	for _, o := range all {
		errs = append(errs, m.Reclaim(ctx, o))
	}
	return errors.Join(errs...)
}

// Orphan is what a sandbox left behind with a backend and does not live.
type Orphan struct {
	Backend string
	ID      api.SandboxID
}

// Orphans lists what backends find of sandboxes that this daemon did not make and
// whose row, where there is one, is final.
func (m *Manager) Orphans(ctx context.Context) ([]Orphan, error) {
	rows, err := m.cfg.Rows.ListSandboxes(ctx, false)
	if err != nil {
		return nil, err
	}
	keep := map[api.SandboxID]bool{}
	for _, row := range rows {
		keep[row.ID] = !row.State.Final()
	}
	return m.orphans(ctx, keep)
}

func (m *Manager) orphans(ctx context.Context, keep map[api.SandboxID]bool) (all []Orphan, err error) {
	var errs []error
	for _, b := range m.cfg.Backends {
		r, ok := b.(Reclaimer)
		if !ok {
			continue
		}
		ids, err := r.Orphans(ctx)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, id := range ids {
			mine, err := m.made(ctx, id)
			if err != nil {
				errs = append(errs, err)
			} else if !mine && !keep[id] {
				all = append(all, Orphan{b.Name(), id})
			}
		}
	}
	return all, errors.Join(errs...)
}

// made says whether a sandbox is of this daemon's making: it lives, it is or was
// in the pool, or its row names this owner. What one that has ended held is freed
// by who ended it.
func (m *Manager) made(ctx context.Context, id api.SandboxID) (bool, error) {
	if _, lives := m.lookup(id); lives || m.pool.made(id) {
		return true, nil
	}
	row, err := m.cfg.Rows.Sandbox(ctx, id)
	if api.KindOf(err) == api.KindNotFound {
		return false, nil
	}
	return row.Owner == m.cfg.Owner, err
}

// Reclaim destroys an orphan, and does nothing to a sandbox of this daemon's.
func (m *Manager) Reclaim(ctx context.Context, o Orphan) error {
	if mine, err := m.made(ctx, o.ID); mine || err != nil {
		return err
	}
	for _, b := range m.cfg.Backends {
		if b.Name() == o.Backend {
			_, err := b.Reclaim(ctx, o.ID)
			return err
		}
	}
	return api.Errorf(api.KindNotFound, "this build has no backend %q", o.Backend)
}
