package beneath

import (
	"errors"
	"io"
	"os"

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
