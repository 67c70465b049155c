package upper

import (
	"errors"
	"strconv"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/storage/beneath"
)

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
	if fd, err = beneath.Open(dir, name, flags); err == nil {
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
	at, err := beneath.Open(dir, name, unix.O_PATH)
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

var errChanged = errors.New("it changed while it was being saved")

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
