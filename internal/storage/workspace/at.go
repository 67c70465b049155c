package workspace

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// beneath is how every path of an upper layer or a layer is resolved: below its
// directory, through directories alone, on one file system.
const beneath = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV

// openAt opens what lies at a path below a directory. A link at the end is opened
// itself with O_PATH and refused without.
func openAt(dir int, path string, flags int) (int, error) {
	how := unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC | unix.O_NOFOLLOW), Resolve: beneath}
	for tries := 0; ; tries++ {
		fd, err := unix.Openat2(dir, path, &how)
		if (err == unix.EINTR || err == unix.EAGAIN) && tries < 100 {
			continue
		}
		return fd, err
	}
}

// openDir opens a directory for reading.
func openDir(dir int, path string) (int, error) {
	return openAt(dir, path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK)
}

// openFile opens a regular file for reading. What it is has to be looked at before:
// the open of a device can have an effect, and O_NONBLOCK keeps a fifo from holding
// us.
func openFile(dir int, path string) (int, error) {
	return openAt(dir, path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
}

// statAt looks at what has a name in a directory, without following it.
func statAt(dir int, name string) (unix.Stat_t, error) {
	var st unix.Stat_t
	err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	return st, err
}

// isWhiteout says whether an entry stands for "nothing here": the character device
// 0/0, which is what an overlay makes and nobody else can do harm with.
func isWhiteout(st *unix.Stat_t) bool { return st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == 0 }

// names calls f with the entries of a directory, in its own order, until f fails
// or most of them were seen; then the error is errMany. The descriptor stays the
// caller's.
func names(dir int, most int, f func(name string) error) error {
	fd, err := unix.FcntlInt(uintptr(dir), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	d := os.NewFile(uintptr(fd), "directory")
	defer d.Close()
	if _, err := d.Seek(0, io.SeekStart); err != nil {
		return err
	}
	for seen := 0; ; {
		batch, err := d.Readdirnames(512)
		for _, name := range batch {
			if seen++; seen > most {
				return errMany
			}
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

var (
	errMany = errors.New("too many entries")
	errDeep = errors.New("directories are nested too deep")
)
