package workspace

import (
	"context"
	"io"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/storage/beneath"
)

// Old is what the layers have where a workspace has a change.
type Old struct {
	Mode Mode
	// Size and Open are as in Change.
	Size int64
	Open func() (io.ReadCloser, error)
}

// old describes a file of the layers; nil if it is none that could be shown.
func (v *view) old(f found, p, name string) *Old {
	if !f.file {
		return nil
	}
	o := &Old{Mode: Regular, Size: f.st.Size}
	switch f.st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		if f.st.Mode&0o100 != 0 {
			o.Mode = Executable
		}
		o.Open = v.opener(p, f.st)
	case unix.S_IFLNK:
		o.Mode = Symlink
		target, err := beneath.Readlink(f.in, name, maxTarget)
		if err != nil {
			return nil
		}
		o.Size, o.Open = int64(len(target)), text(target)
	default:
		return nil
	}
	return o
}

// opener opens a regular file of the layers again: the layer in which it is the one that was
// looked at.
func (v *view) opener(p string, was unix.Stat_t) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) {
		err := error(unix.ENOENT)
		for _, root := range v.roots {
			f, rerr := reopen(root, p, was)
			if rerr == nil {
				return &exact{f: f, left: was.Size}, nil
			}
			err = rerr
		}
		return nil, err
	}
}

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
