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

// ForkStopped is Fork for a workspace that a sandbox of this process has, all of whose processes are stopped until it returns. The
// files are copied, whatever their number: those of the sandbox cannot become a layer. KindConflict if no sandbox has it.
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
	w, err := l.copied(ctx, n, from)
	if err != nil {
		return w, s.diskError(err, "fork workspace "+string(id))
	}
	return w, nil
}
