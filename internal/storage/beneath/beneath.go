package beneath

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// resolve is how every path is resolved: below its directory, through directories alone, on
// one file system.
const resolve = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV

// Open opens the file at a path below a directory. With O_PATH it opens a link at the end
// itself, without it refuses one. A pipe does not block it. The open of a device can have an
// effect: inspect a file of unknown type first.
func Open(dir int, path string, flags int) (int, error) {
	flags |= unix.O_CLOEXEC | unix.O_NOFOLLOW
	if flags&unix.O_PATH == 0 {
		flags |= unix.O_NONBLOCK | unix.O_NOCTTY
	}
	how := unix.OpenHow{Flags: uint64(flags), Resolve: resolve}
	for tries := 0; ; tries++ {
		fd, err := unix.Openat2(dir, path, &how)
		if (err == unix.EINTR || err == unix.EAGAIN) && tries < 100 {
			continue
		}
		return fd, err
	}
}

// OpenDir opens a directory for reading.
func OpenDir(dir int, path string) (int, error) {
	return Open(dir, path, unix.O_RDONLY|unix.O_DIRECTORY)
}

// Stat inspects the entry of a directory, without following a link.
func Stat(dir int, name string) (st unix.Stat_t, err error) {
	err = unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	return st, err
}

// Readlink returns the target of a link; ENAMETOOLONG if it has more than max bytes.
func Readlink(dir int, name string, max int) (string, error) {
	buf := make([]byte, max+1)
	n, err := unix.Readlinkat(dir, name, buf)
	if err == nil && n > max {
		err = unix.ENAMETOOLONG
	}
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

// Names calls f with the entries of a directory, in its own order, until f fails. The caller
// closes the directory.
func Names(dir int, f func(name string) error) error {
	fd, err := unix.FcntlInt(uintptr(dir), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	d := os.NewFile(uintptr(fd), "directory")
	defer d.Close()
	if _, err := d.Seek(0, io.SeekStart); err != nil {
		return err
	}
	for {
		batch, err := d.Readdirnames(512)
		for _, name := range batch {
			if err := f(name); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

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
// with directories that no user may enter. It holds three descriptors at most:
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
