package workspace

import (
	"context"
	"time"

	"hortus.dev/api"
)

// TakeOver is Lease for a workspace that is mounted for a process which outlived its
// daemon. Nobody else can have got it meanwhile: who takes its lock finds that process
// alive, and releases it. It fails with KindConflict when another process has it, or none.
func (s *Store) TakeOver(ctx context.Context, id api.WorkspaceID, pid int) (*Lease, error) {
	for {
		l, holder, alive, err := s.held(id)
		if api.KindOf(err) == api.KindConflict && ctx.Err() == nil {
			time.Sleep(time.Millisecond) // somebody is having that look
			continue
		}
		if err == nil && (!alive || holder != pid) {
			unlock(l.dir)
			err = api.Errorf(api.KindConflict, "workspace %s is not mounted for process %d", id, pid)
		}
		if err != nil {
			return nil, err
		}
		return l.activate(ctx)
	}
}

// Leave releases the lock for a process that continues with the workspace: it stays that
// one's, and active. It may be called for nil, and instead of Release.
func (l *Lease) Leave() {
	if l != nil {
		l.once.Do(func() {
			defer l.s.leases.remove(l)()
			unlock(l.dir)
		})
	}
}
