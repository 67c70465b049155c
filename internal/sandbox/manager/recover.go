package manager

import (
	"context"
	"errors"
	"hortus.dev/internal/sandbox"
	"slices"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox/life"
)

// recovery brings rows and reality together.
type recovery struct{ *core }

// Recovered counts the sandboxes of ended owners that a recovery processed.
type Recovered struct{ Adopted, Lost int }

// Recover takes over the sandboxes of every owner for which gone returns true, with their
// deadlines and commands. A sandbox that cannot continue is destroyed with proof and marked
// lost, and its commands unknown: if it was starting, worked for a task, was held by a
// connection, has exited, or if its backend is not an Adopter. A sandbox that is paused to disk
// stays paused. Leftovers without a row are destroyed too. Rows of an owner that may still be
// running are not changed.
func (m recovery) Recover(ctx context.Context, gone func(api.OwnerID) bool) (did Recovered, err error) {
	rows, err := m.cfg.Rows.ListSandboxes(ctx, false)
	if err != nil {
		return did, err
	}
	backends := map[string]sandbox.Backend{}
	for _, b := range m.cfg.Backends {
		backends[b.Name()] = b
	}
	var errs []error
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
			m.count(row)
			errs = append(errs, api.Errorf(api.KindUnsupported, "sandbox %s ran on backend %q, which this build does not include", row.ID, row.Isolation))
			continue
		}
		lives, err := m.recoverOne(ctx, b, row)
		switch {
		case err != nil:
			m.count(row)
			errs = append(errs, err)
			keep[row.ID] = lives
		case lives:
			keep[row.ID] = true
			did.Adopted++
		default:
			did.Lost++
		}
	}
	errs = append(errs, m.reclaimOrphans(ctx, keep), m.dropPauses(ctx, gone))
	policies{m.core}.follower().Follow(slices.DeleteFunc(rows, func(row api.Sandbox) bool { return !keep[row.ID] }), "")
	return did, errors.Join(errs...)
}

// count takes the room of a sandbox that could neither be taken over nor destroyed,
// and may still run, for as long as this daemon lives.
func (m recovery) count(row api.Sandbox) {
	if a := m.admission(row.Isolation); a != nil {
		a.Hold(m.newLive(row, nil, life.Running).need(context.Background()))
	}
}

// recoverOne recovers one sandbox of an ended owner. It returns true if the sandbox continues, here
// or on disk.
func (m recovery) recoverOne(ctx context.Context, b sandbox.Backend, row api.Sandbox) (bool, error) {
	paused, reason := m.foundPaused(ctx, row)
	if !paused && reason == "" {
		err := m.adopt(ctx, b, row)
		for tries := 1; api.KindOf(err) == api.KindTimeout && ctx.Err() == nil && tries < adoptTries; tries++ {
			err = m.adopt(ctx, b, row) // a machine that is busy is no reason to end what runs on it
		}
		var unstored errUnstored
		switch {
		case err == nil:
			return true, nil
		case ctx.Err() != nil || errors.As(err, &unstored):
			return true, err // it is left to the next daemon as it is
		}
		reason = lostWhy(err)
	}
	proof, err := b.Reclaim(ctx, row.ID)
	switch {
	case err != nil:
		return paused, err
	case paused:
		return true, m.takeOver(ctx, row)
	}
	return false, m.markLost(ctx, row, reason, proof)
}

// adoptTries is how often a sandbox is taken over that does not answer in time.
const adoptTries = 3

// foundPaused reports whether a sandbox of an ended owner is paused to disk, or why it was paused
// and is lost; neither if it may still be running. A sandbox whose pause was in progress is
// paused if its snapshot is complete, and one whose resume was in progress if its row does not
// say running yet.
func (m recovery) foundPaused(ctx context.Context, row api.Sandbox) (bool, string) {
	if row.Snapshot == "" || m.cfg.Snapshots == nil {
		return false, ""
	}
	s, err := m.cfg.Snapshots.Snapshot(ctx, row.Snapshot)
	switch {
	case err == nil && s.State == api.SnapshotReady && s.Paused && s.Sandbox == row.ID:
		return true, ""
	case row.State != api.SandboxPaused, err == nil && !(s.Paused && s.Sandbox == row.ID):
		return false, "" // what it started from
	case err != nil:
		return false, "the sandbox was paused to disk, and its snapshot cannot be read: " + err.Error()
	}
	return false, "the sandbox was paused to disk, and its snapshot is " + string(s.State) + because(s.Reason)
}

// takeOver makes a sandbox that is paused to disk this daemon's.
func (m recovery) takeOver(ctx context.Context, row api.Sandbox) error {
	said := row.State != api.SandboxPaused
	row.State, row.Owner = api.SandboxPaused, m.cfg.Owner
	if err := m.cfg.Rows.UpdateSandbox(ctx, row); err != nil {
		return err
	}
	if said {
		m.event(row.ID, api.EventSandboxState, api.SandboxStateEvent{State: row.State, Reason: "paused to disk in snapshot " + string(row.Snapshot)})
	}
	return nil
}

// dropPauses removes the snapshots of pauses in which no sandbox is paused: it
// continued, or ended, and its daemon with it.
func (m recovery) dropPauses(ctx context.Context, gone func(api.OwnerID) bool) error {
	if m.cfg.Snapshots == nil {
		return nil
	}
	all, err := m.cfg.Snapshots.Snapshots(ctx, false)
	errs := []error{err}
	for _, s := range all {
		if !s.Paused || s.State != api.SnapshotReady || s.Owner != m.cfg.Owner && !gone(s.Owner) {
			continue
		}
		row, err := m.cfg.Rows.Sandbox(ctx, s.Sandbox)
		if err == nil && row.State == api.SandboxPaused && row.Snapshot == s.ID {
			continue
		}
		if err != nil && api.KindOf(err) != api.KindNotFound {
			errs = append(errs, err)
			continue
		}
		_, err = m.cfg.Snapshots.Remove(ctx, s.ID, "no paused sandbox uses this snapshot")
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (c *core) markLost(ctx context.Context, row api.Sandbox, reason string, proof api.Proof) error {
	if err := c.run.EndAll(ctx, row.ID, api.CauseLost); err != nil {
		return err
	}
	row.State, row.Reason, row.EndedAt = api.SandboxLost, reason, c.now().UTC()
	if err := c.cfg.Rows.UpdateSandbox(ctx, row); err != nil {
		return err
	}
	c.event(row.ID, api.EventSandboxState, api.SandboxStateEvent{State: row.State, Reason: row.Reason, Proof: &proof})
	return nil
}

// reclaimOrphans destroys leftovers that no row leads to, for example of a
// database that was removed.
func (m recovery) reclaimOrphans(ctx context.Context, keep map[api.SandboxID]bool) error {
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

// Orphans lists leftovers that backends find of sandboxes that this daemon did not create and
// whose row, if there is one, is final.
func (m recovery) Orphans(ctx context.Context) ([]Orphan, error) {
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

func (m recovery) orphans(ctx context.Context, keep map[api.SandboxID]bool) (all []Orphan, err error) {
	var errs []error
	for _, b := range m.cfg.Backends {
		ids, err := b.Orphans(ctx)
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

// made reports whether this daemon created a sandbox: it is live, it is or was in the pool, or its
// row names this owner. Resources of an ended one are freed by the goroutine that ended it.
func (m recovery) made(ctx context.Context, id api.SandboxID) (bool, error) {
	m.mu.Lock()
	_, lives := m.table[id]
	m.mu.Unlock()
	if lives || m.pool.Made(id) {
		return true, nil
	}
	row, err := m.cfg.Rows.Sandbox(ctx, id)
	if api.KindOf(err) == api.KindNotFound {
		return false, nil
	}
	return row.Owner == m.cfg.Owner, err
}

// Reclaim destroys an orphan, and does nothing to a sandbox of this daemon's.
func (m recovery) Reclaim(ctx context.Context, o Orphan) error {
	if mine, err := m.made(ctx, o.ID); mine || err != nil {
		return err
	}
	for _, b := range m.cfg.Backends {
		if b.Name() == o.Backend {
			_, err := b.Reclaim(ctx, o.ID)
			return err
		}
	}
	return api.Errorf(api.KindNotFound, "this build does not include backend %q", o.Backend)
}
