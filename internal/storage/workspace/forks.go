package workspace

import (
	"context"
	"errors"
	"sync"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/storage/beneath"
)

// leases are the active leases of this process.
type leases struct {
	mu  sync.Mutex
	all map[api.WorkspaceID]*Lease
}

func (a *leases) add(l *Lease) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all == nil {
		a.all = map[api.WorkspaceID]*Lease{}
	}
	a.all[l.rec.ID] = l
}

// remove forgets a lease that is about to end, and waits for a copy of its files. No copy begins until done is called.
func (a *leases) remove(l *Lease) (done func()) {
	l.copying.Lock()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all[l.rec.ID] == l {
		delete(a.all, l.rec.ID)
	}
	return l.copying.Unlock
}

// hold returns the lease of a workspace, which does not end until release is called; nil if it has none here.
func (a *leases) hold(id api.WorkspaceID) (l *Lease, release func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if l = a.all[id]; l == nil || !l.copying.TryRLock() {
		return nil, nil
	}
	return l, l.copying.RUnlock
}

// Copyable is what a fork of a stopped workspace copies at most if its caller can do without it. More is for Fork, which
// makes a layer of it.
func Copyable() Usage { return Usage{Files: 4096, Bytes: 64 << 20} }

// Forks is what a store does for the children of a fork of a sandbox. Its workspaces are as they were while the sandbox stood still.
type Forks struct{ *Store }

// ForkStopped is Fork for a workspace that a sandbox of this process has, all of whose processes are stopped until it returns. What
// was written since the last Fork is copied: the files of a sandbox cannot become a layer. KindConflict if no sandbox has it,
// KindExhausted if that is more than most.
func (s Forks) ForkStopped(ctx context.Context, id api.WorkspaceID, n New, most Usage) (api.Workspace, error) {
	l, release := s.leases.hold(id)
	if l == nil {
		return api.Workspace{}, api.Errorf(api.KindConflict, "no sandbox has workspace %s", id)
	}
	defer release()
	from, err := beneath.OpenDir(int(l.dir.Fd()), Upper)
	if err != nil {
		return api.Workspace{}, s.diskError(err, "fork workspace "+string(id))
	}
	defer unix.Close(from)
	u, err := s.measure(ctx, from, Usage{}, most)
	if err != nil {
		return api.Workspace{}, s.diskError(err, "fork workspace "+string(id))
	}
	if over := u.Over(most); over != "" {
		return api.Workspace{}, api.Errorf(api.KindExhausted, "workspace %s: %s were written since its last fork, too much to copy while a sandbox has it", id, over)
	}
	w, err := l.copied(ctx, n, from)
	if err != nil {
		return w, s.diskError(err, "fork workspace "+string(id))
	}
	return w, nil
}

// Keep makes a pending workspace one that stays until somebody removes it, also while a sandbox of this process has it.
func (s Forks) Keep(ctx context.Context, id api.WorkspaceID) error {
	l, release := s.leases.hold(id)
	if l == nil {
		var err error
		if l, err = s.lease(id); err != nil {
			return err
		}
		release = func() { unlock(l.dir) }
	}
	defer release()
	rec := l.rec
	rec.Pending = false
	return l.rewrite(rec, func(w *api.Workspace) { w.Keep = true })
}

// settle ends what owners that are gone have begun: a pending workspace that a sandbox has is kept, because its child runs, and
// the others are removed.
func (s Forks) settle(here []api.WorkspaceID, gone func(api.OwnerID) bool) error {
	var errs []error
	for _, id := range here {
		w, err := s.pending(id)
		if err != nil || !w.Pending || w.Owner == s.cfg.Owner || !gone(w.Owner) {
			continue // what cannot be read stays: whose it is is not known
		}
		if l, release := s.leases.hold(id); l != nil {
			release()
			errs = append(errs, s.Keep(s.ctx, id))
			continue
		}
		// It may be in use by a sandbox that could not be taken over.
		if err := s.RemoveLater(id, "the child of a fork that it was made for did not start"); err != nil && api.KindOf(err) != api.KindConflict {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (s Forks) pending(id api.WorkspaceID) (record, error) {
	d, err := s.openDir(id)
	if err != nil {
		return record{}, err
	}
	defer d.Close()
	return readRecord(d, id)
}
