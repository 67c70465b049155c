package layer

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/storage/storedir"
)

// Lease keeps a tree from being removed. It is a shared lock on the tree's
// directory: the kernel gives it up when the process ends, however it ends.
type Lease struct{ f *os.File }

// Release releases the lease. It may be called for nil.
func (l *Lease) Release() {
	if l != nil {
		l.touch()
		l.f.Close()
	}
}

// touch records that the tree is used now. What it cannot record makes the tree look older.
func (l *Lease) touch() {
	now := []unix.Timespec{{Nsec: unix.UTIME_NOW}, {Nsec: unix.UTIME_NOW}}
	_ = unix.UtimesNanoAt(int(l.f.Fd()), treeName, now, unix.AT_SYMLINK_NOFOLLOW)
}

// Used returns when a lease on the tree last began or ended, or the tree was made; KindNotFound
// when it is not there.
func (s *Store) Used(digest Digest) (time.Time, error) {
	if !digest.Valid() {
		return time.Time{}, api.Errorf(api.KindInvalid, "layer digest %q is malformed", string(digest))
	}
	st, err := os.Lstat(filepath.Join(s.dir, string(digest), treeName))
	if errors.Is(err, fs.ErrNotExist) {
		return time.Time{}, notFound(digest, "")
	}
	if err != nil {
		return time.Time{}, api.Errorf(api.KindInternal, "layer %s: %w", digest, err)
	}
	return st.ModTime(), nil
}

// Lease finds the tree of that digest, as Resolve does, and holds it until the
// lease is released.
func (s *Store) Lease(digest Digest) (Tree, *Lease, error) {
	dir := filepath.Join(s.dir, string(digest))
	for {
		// It says why there is none, and refuses a malformed digest.
		tree, err := s.Resolve(digest)
		if err != nil {
			return Tree{}, nil, err
		}
		f, err := os.Open(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return Tree{}, nil, api.Errorf(api.KindInternal, "layer %s: %w", digest, err)
		}
		// It waits at most for a Put to return or a Remove to rename.
		if err := storedir.Lock(f, unix.LOCK_SH); err != nil {
			f.Close()
			return Tree{}, nil, api.Errorf(api.KindInternal, "layer %s: lock: %w", digest, err)
		}
		// Between the look and the lock it may have been removed, and perhaps made
		// again; the lock follows the directory, not its name.
		mine, err := f.Stat()
		if err == nil {
			var there fs.FileInfo
			if there, err = os.Stat(dir); err == nil && os.SameFile(mine, there) {
				l := &Lease{f}
				l.touch()
				return tree, l, nil
			}
		}
		f.Close()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return Tree{}, nil, api.Errorf(api.KindInternal, "layer %s: %w", digest, err)
		}
	}
}

// Leased reports whether somebody holds a lease on the tree, in this process or
// another, or is about to finish it.
func (s *Store) Leased(digest Digest) (bool, error) {
	f, err := s.exclusive(digest)
	if f != nil {
		f.Close()
	}
	if api.KindOf(err) == api.KindConflict {
		return true, nil
	}
	return false, err
}

// Remove removes a tree; nil when it is not there, KindConflict while somebody
// holds a lease on it.
func (s *Store) Remove(digest Digest) error {
	f, err := s.exclusive(digest)
	if f == nil || err != nil {
		return err
	}
	s.unmount(digest)
	// Renamed first: a removal that is interrupted must not leave half a tree
	// under a good name.
	gone := s.away("gone", digest)
	err = os.Rename(filepath.Join(s.dir, string(digest)), gone)
	s.pass("set aside")
	f.Close()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = removeAll(gone)
	}
	if err != nil {
		return api.Errorf(api.KindInternal, "layer %s: remove: %w", digest, err)
	}
	return nil
}

// exclusive takes the tree's lock for itself; nil and no error when the tree is
// not there.
func (s *Store) exclusive(digest Digest) (*os.File, error) {
	if !digest.Valid() {
		return nil, api.Errorf(api.KindInvalid, "layer digest %q is malformed", string(digest))
	}
	f, err := os.Open(filepath.Join(s.dir, string(digest)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "layer %s: %w", digest, err)
	}
	err = storedir.Lock(f, unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return f, nil
	}
	f.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, api.Errorf(api.KindConflict, "layer %s is in use", digest)
	}
	return nil, api.Errorf(api.KindInternal, "layer %s: lock: %w", digest, err)
}
