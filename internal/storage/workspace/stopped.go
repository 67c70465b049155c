package workspace

import (
	"context"
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

// copyable is what ForkStopped copies at most. More is for Fork, which makes a layer of it.
func copyable() Usage { return Usage{Files: 4096, Bytes: 64 << 20} }

// ForkStopped is Fork for a workspace that a sandbox of this process has, all of whose processes are stopped until it returns. What
// was written since the last Fork is copied: the files of a sandbox cannot become a layer. KindConflict if no sandbox has it,
// KindExhausted if that is more than 64 MiB or 4,096 files.
func (s *Store) ForkStopped(ctx context.Context, id api.WorkspaceID, n New) (api.Workspace, error) {
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
	u, err := s.measure(ctx, from, Usage{}, copyable())
	if err != nil {
		return api.Workspace{}, s.diskError(err, "fork workspace "+string(id))
	}
	if over := u.Over(copyable()); over != "" {
		return api.Workspace{}, api.Errorf(api.KindExhausted, "workspace %s: %s were written since its last fork, too much to copy while a sandbox has it", id, over)
	}
	w, err := l.copied(ctx, n, from)
	if err != nil {
		return w, s.diskError(err, "fork workspace "+string(id))
	}
	return w, nil
}
