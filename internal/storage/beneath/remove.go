package beneath

import (
	"context"
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// moved begins the names of directories that are moved up before they are removed.
const moved = "gone-"

// RemoveAll removes a directory with all that a guest may have put into it; nil when
// it is not there. Its parent has to be the caller's own.
func RemoveAll(ctx context.Context, dir string) error {
	parent, err := unix.Open(filepath.Dir(dir), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(parent)
	return removeTree(ctx, parent, filepath.Base(dir))
}

// removeTree removes a directory that a guest may have filled: of any depth, also
// with directories that nobody may enter. It holds three descriptors at most:
// directories of a directory are moved up before it is removed.
func removeTree(ctx context.Context, parent int, name string) error {
	top, err := enter(parent, name)
	if err == unix.ENOENT {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(top)
	up := 0
	for {
		n := 0
		err := Names(top, func(sub string) error {
			n++
			return flatten(ctx, top, sub, &up)
		})
		if err != nil {
			return err
		}
		if n == 0 {
			return unix.Unlinkat(parent, name, unix.AT_REMOVEDIR)
		}
	}
}

// flatten removes an entry of top; the directories of a directory become entries of
// top, with names that nothing else there has.
func flatten(ctx context.Context, top int, name string, up *int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	st, err := Stat(top, name)
	if err == unix.ENOENT {
		return nil
	}
	if err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return unix.Unlinkat(top, name, 0)
	}
	dir, err := enter(top, name)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	for {
		n := 0
		err := Names(dir, func(sub string) error {
			n++
			st, err := Stat(dir, sub)
			if err != nil {
				return err
			}
			if st.Mode&unix.S_IFMT != unix.S_IFDIR {
				return unix.Unlinkat(dir, sub, 0)
			}
			if unix.Unlinkat(dir, sub, unix.AT_REMOVEDIR) == nil {
				return nil
			}
			// Moving a directory writes to it.
			in, err := enter(dir, sub)
			if err != nil {
				return err
			}
			unix.Close(in)
			for {
				// A removal that was interrupted left such names.
				*up++
				err := unix.Renameat2(dir, sub, top, fmt.Sprintf("%s%d", moved, *up), unix.RENAME_NOREPLACE)
				if err != unix.EEXIST {
					return err
				}
			}
		})
		if err != nil {
			return err
		}
		if n == 0 {
			return unix.Unlinkat(top, name, unix.AT_REMOVEDIR)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// enter opens a directory and makes it ours to change.
func enter(dir int, name string) (int, error) {
	p, err := Open(dir, name, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return -1, err
	}
	defer unix.Close(p)
	self := fmt.Sprintf("/proc/self/fd/%d", p)
	if err := unix.Chmod(self, 0o700); err != nil {
		return -1, err
	}
	return unix.Open(self, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
}
