package upper

import (
	"errors"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// beneath is how every name is resolved: below its directory, without links, on one file system.
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

// openLooked opens a regular file or directory for reading, checks that it is the inspected one,
// and returns how to close it.
func openLooked(dir int, name string, was *unix.Stat_t, lift bool) (fd int, done func(), err error) {
	const read, search = 0o400, 0o100
	flags, needs := unix.O_RDONLY, uint32(read)
	if was.Mode&unix.S_IFMT == unix.S_IFDIR {
		flags, needs = flags|unix.O_DIRECTORY, read|search
	}
	back := func() {}
	if lift && was.Mode&needs != needs {
		if back, err = liftMode(dir, name, was, needs); err != nil {
			return -1, nil, err
		}
	}
	if fd, err = openAt(dir, name, flags); err == nil {
		if err = same(fd, was); err == nil {
			return fd, func() { back(); unix.Close(fd) }, nil
		}
		unix.Close(fd)
	}
	back()
	return -1, nil, err
}

// liftMode makes an unreadable file of this process's own user readable until done is called.
func liftMode(dir int, name string, was *unix.Stat_t, needs uint32) (done func(), err error) {
	at, err := openAt(dir, name, unix.O_PATH)
	if err != nil {
		return nil, err
	}
	// By the descriptor, whose file is known not to be a link.
	self := "/proc/self/fd/" + strconv.Itoa(at)
	if err = same(at, was); err == nil {
		err = unix.Chmod(self, was.Mode&0o7777|needs)
	}
	if err != nil {
		unix.Close(at)
		return nil, err
	}
	return func() {
		// It succeeded a moment ago on the same open file.
		_ = unix.Chmod(self, was.Mode&0o7777)
		unix.Close(at)
	}, nil
}

var errChanged = errors.New("it changed while it was saved")

// same checks that a descriptor refers to the inspected file.
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

// names calls f with the entries of a directory. The caller closes the directory.
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

// readlink returns the target of a link, whose length is limited.
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
