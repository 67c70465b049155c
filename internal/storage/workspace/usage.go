package workspace

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/storage/beneath"
)

// Usage is what a workspace takes on its disk.
type Usage struct {
	Bytes int64
	Files int64 // inodes: files, directories, links, whiteouts
}

// liveDepth bounds the directories that a measurement holds open.
const liveDepth = 1024

// Over returns what a workspace is over of most; empty when it is not.
func (u Usage) Over(most Usage) string {
	switch {
	case most.Bytes > 0 && u.Bytes > most.Bytes:
		return fmt.Sprintf("more than %d bytes", most.Bytes)
	case most.Files > 0 && u.Files > most.Files:
		return fmt.Sprintf("more than %d files", most.Files)
	}
	return ""
}

// ErrDeep is what Measure gives for a tree that cannot be measured with a bounded
// number of descriptors.
var ErrDeep = fmt.Errorf("cannot measure directories nested more than %d levels deep", liveDepth)

// Measure adds up what lies in the directory of a lease, the upper layer and the
// work directory, while a guest may be writing to it, and what the layers hold that it shares
// with forks. It stops once that is more
// than most, zero fields of which do not bound; the result is then a lower bound.
// No link is followed, and what vanishes meanwhile takes nothing.
func (l *Lease) Measure(ctx context.Context, most Usage) (Usage, error) {
	return l.s.measure(ctx, int(l.dir.Fd()), l.rec.Below, most)
}

// measure adds what is below a directory to sum.
func (s *Store) measure(ctx context.Context, dir int, sum, most Usage) (Usage, error) {
	m := meter{ctx: ctx, sum: sum, most: most, seen: map[uint64]bool{}, opening: &s.opening}
	defer m.release()
	err := m.dir(dir, 0)
	if errors.Is(err, errEnough) {
		err = nil
	}
	return m.sum, err
}

var errEnough = errors.New("the measurement limit was reached")

type meter struct {
	ctx  context.Context
	most Usage
	sum  Usage
	seen map[uint64]bool // files with several names

	// opening is held from the first directory whose mode is changed to the end: two
	// measurements must not take each other's mode for the guest's.
	opening *sync.Mutex
	holds   bool
}

func (m *meter) release() {
	if m.holds {
		m.opening.Unlock()
	}
}

func (m *meter) dir(dir, depth int) error {
	if depth > liveDepth {
		return ErrDeep
	}
	err := beneath.Names(dir, func(name string) error {
		if err := m.ctx.Err(); err != nil {
			return err
		}
		st, err := beneath.Stat(dir, name)
		if err == unix.ENOENT {
			return nil
		}
		if err != nil {
			return err
		}
		isDir := st.Mode&unix.S_IFMT == unix.S_IFDIR
		if st.Nlink > 1 && !isDir {
			if m.seen[st.Ino] {
				return nil
			}
			m.seen[st.Ino] = true
		}
		m.sum.Files++
		m.sum.Bytes += st.Blocks * 512
		if m.sum.Over(m.most) != "" {
			return errEnough
		}
		if !isDir {
			return nil
		}
		sub, err := beneath.OpenDir(dir, name)
		if err == unix.EACCES {
			if !m.holds {
				m.opening.Lock()
				m.holds = true
			}
			var shut func() error
			if sub, shut, err = openShut(dir, name); err == nil {
				defer shut()
			}
		}
		if err == unix.ENOENT || err == unix.ENOTDIR || err == unix.ELOOP {
			return nil // replaced since
		}
		if err != nil {
			return err
		}
		defer unix.Close(sub)
		return m.dir(sub, depth+1)
	})
	if errors.Is(err, unix.ENOENT) {
		return nil // removed since
	}
	return err
}

// openShut opens a directory of our own id that its mode keeps us from entering: a
// guest with the same id must not be able to hide files so. The mode is given back by
// shut; the overlay above does not look at it again meanwhile.
func openShut(dir int, name string) (fd int, shut func() error, err error) {
	return openShutAs(dir, name, unix.O_RDONLY|unix.O_DIRECTORY)
}

// openShutAs is openShut for a directory, or for a regular file without O_DIRECTORY.
func openShutAs(dir int, name string, flags int) (fd int, shut func() error, err error) {
	p, err := beneath.Open(dir, name, unix.O_PATH|flags&unix.O_DIRECTORY)
	if err != nil {
		return -1, nil, err
	}
	defer func() {
		if err != nil {
			unix.Close(p)
		}
	}()
	var st unix.Stat_t
	if err := unix.Fstat(p, &st); err != nil {
		return -1, nil, err
	}
	if kind := st.Mode & unix.S_IFMT; kind != unix.S_IFDIR && kind != unix.S_IFREG {
		return -1, nil, unix.EACCES
	}
	self := fmt.Sprintf("/proc/self/fd/%d", p)
	if err := unix.Chmod(self, st.Mode&0o7777|0o500); err != nil {
		return -1, nil, err
	}
	restore := func() error { return unix.Chmod(self, st.Mode&0o7777) }
	if fd, err = unix.Open(self, flags|unix.O_CLOEXEC|unix.O_NONBLOCK, 0); err != nil {
		return -1, nil, errors.Join(err, restore())
	}
	return fd, func() error { return errors.Join(restore(), unix.Close(p)) }, nil
}

// Usage measures a workspace; KindNotFound when it is not there. Beside an error of
// another kind stands what was measured until then.
func (s *Store) Usage(ctx context.Context, id api.WorkspaceID) (Usage, error) {
	d, err := s.openDir(id)
	if err != nil {
		return Usage{}, err
	}
	defer d.Close()
	rec, err := readRecord(d, id)
	if err != nil {
		return Usage{}, err
	}
	u, err := s.measure(ctx, int(d.Fd()), rec.Below, Usage{})
	if err != nil {
		return u, api.Errorf(api.KindOf(err), "measure workspace %s: %w", id, err)
	}
	return u, nil
}
