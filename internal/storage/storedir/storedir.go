package storedir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
)

// Open returns the absolute path of a store's directory, which it creates with mode 0700.
// Entries with one of the prefixes are leftovers of a process that ended: Open removes
// them, unless their maker still holds their lock. what names the store in errors.
func Open(what, dir string, remove func(path string) error, prefixes ...string) (string, error) {
	abs, left, err := Leftovers(what, dir, prefixes...)
	for _, path := range left {
		if err := Sweep(path, remove); err != nil {
			return "", api.Errorf(api.KindInternal, "%s: remove the leftover %s: %w", what, filepath.Base(path), err)
		}
	}
	return abs, err
}

// Leftovers is Open for a caller that removes the leftovers itself, with Sweep: they may be
// large. They have no valid identifiers, so List does not have them.
func Leftovers(what, dir string, prefixes ...string) (abs string, left []string, err error) {
	abs, err = filepath.Abs(dir)
	if err != nil {
		return "", nil, api.Errorf(api.KindInvalid, "%s: %w", what, err)
	}
	if err := os.MkdirAll(abs, 0o700); err != nil {
		return "", nil, api.Errorf(api.KindInternal, "%s: %w", what, err)
	}
	// Keep others from what a guest wrote: it may hold setuid files.
	if err := os.Chmod(abs, 0o700); err != nil {
		return "", nil, api.Errorf(api.KindInternal, "%s: %w", what, err)
	}
	entries, err := os.ReadDir(abs)
	if err != nil {
		return "", nil, api.Errorf(api.KindInternal, "%s: %w", what, err)
	}
	for _, e := range entries {
		if slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(e.Name(), p) }) {
			left = append(left, filepath.Join(abs, e.Name()))
		}
	}
	return abs, left, nil
}

// Sweep removes a leftover, unless its maker still holds its lock.
func Sweep(path string, remove func(path string) error) error {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // another process removed it, or renamed it into place
	case err == nil:
		defer f.Close()
		if err := Lock(f, unix.LOCK_EX|unix.LOCK_NB); err == unix.EWOULDBLOCK {
			return nil
		} else if err != nil {
			return err
		}
	case !errors.Is(err, unix.ELOOP) && !errors.Is(err, fs.ErrPermission): // these have no lock
		return err
	}
	// The lock follows a directory through a rename: only what still has the old name is a
	// leftover.
	return remove(path)
}

// Lock takes a lock of an open file or directory; how is a mode of flock(2).
func Lock(f *os.File, how int) error {
	for {
		if err := unix.Flock(int(f.Fd()), how); err != unix.EINTR {
			return err
		}
	}
}

// MakeLocked creates a directory with mode 0700 in dir, as [os.MkdirTemp] does, and locks it.
func MakeLocked(dir, pattern string) (*os.File, error) {
	for {
		path, err := os.MkdirTemp(dir, pattern)
		if err != nil {
			return nil, err
		}
		f, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // swept by another process before it was locked
		}
		if err != nil {
			return nil, err
		}
		err = Lock(f, unix.LOCK_EX|unix.LOCK_NB)
		var st unix.Stat_t
		if err == nil {
			err = unix.Fstat(int(f.Fd()), &st)
		}
		if err == nil && st.Nlink > 0 {
			return f, nil
		}
		f.Close()
		if err != nil && err != unix.EWOULDBLOCK {
			return nil, err
		}
	}
}

// Sync flushes the names of a directory to the disk.
func Sync(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// List returns the entries of a store's directory that are directories and have a valid
// identifier as their name, sorted.
func List[ID interface {
	~string
	Valid() bool
}](what, dir string) (ids []ID, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "%s: %w", what, err)
	}
	for _, e := range entries { // sorted
		if id := ID(e.Name()); id.Valid() && e.IsDir() {
			ids = append(ids, id)
		}
	}
	return ids, nil
}
