package upper

import (
	"errors"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// beneath is how every name is resolved: below its directory, through directories
// alone, on one file system.
const beneath = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV

// Open opens a directory by its path below another one, without following a link.
func Open(dir int, path string) (int, error) {
	return openAt(dir, path, unix.O_RDONLY|unix.O_DIRECTORY)
}

func openAt(dir int, path string, flags int) (int, error) {
	how := unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY), Resolve: beneath}
	if flags&unix.O_PATH != 0 {
		how.Flags = uint64(flags | unix.O_CLOEXEC | unix.O_NOFOLLOW)
	}
	for tries := 0; ; tries++ {
		fd, err := unix.Openat2(dir, path, &how)
		if (err == unix.EINTR || err == unix.EAGAIN) && tries < 100 {
			continue
		}
		return fd, err
	}
}

// openLooked opens for reading what was looked at, a regular file or a directory.
func openLooked(dir int, name string, was *unix.Stat_t, lift bool) (int, error) {
	flags := unix.O_RDONLY
	if was.Mode&unix.S_IFMT == unix.S_IFDIR {
		flags |= unix.O_DIRECTORY
	}
	fd, err := openAt(dir, name, flags)
	if err == unix.EACCES && lift {
		fd, err = openLifted(dir, name, was, flags)
	}
	if err != nil {
		return -1, err
	}
	if err := same(fd, was); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// openLifted opens what its owner, who is us, has forbidden itself to read. Its mode
// is as it was when this returns.
func openLifted(dir int, name string, was *unix.Stat_t, flags int) (int, error) {
	at, err := openAt(dir, name, unix.O_PATH)
	if err != nil {
		return -1, err
	}
	defer unix.Close(at)
	if err := same(at, was); err != nil {
		return -1, err
	}
	// The descriptor's own file, which has just been found to be no link.
	self := "/proc/self/fd/" + strconv.Itoa(at)
	mode := was.Mode & 0o7777
	if err := unix.Chmod(self, mode|0o500); err != nil {
		return -1, err
	}
	fd, err := unix.Open(self, flags|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if cerr := unix.Chmod(self, mode); err == nil && cerr != nil {
		unix.Close(fd)
		return -1, cerr
	}
	return fd, err
}

var errChanged = errors.New("it changed while it was saved")

// same checks that a descriptor is of what was looked at.
func same(fd int, was *unix.Stat_t) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Dev != was.Dev || st.Ino != was.Ino || st.Mode&unix.S_IFMT != was.Mode&unix.S_IFMT {
		return errChanged
	}
	return nil
}

// names calls f with the entries of a directory, which stays the caller's.
func names(dir int, f func(name string) error) error {
	fd, err := unix.FcntlInt(uintptr(dir), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	d := os.NewFile(uintptr(fd), "directory")
	defer d.Close()
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

// readlink gives a link's target, which is bounded.
func readlink(dir int, name string) (string, error) {
	buf := make([]byte, maxText+1)
	n, err := unix.Readlinkat(dir, name, buf)
	if err == nil && n > maxText {
		err = unix.ENAMETOOLONG
	}
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}
