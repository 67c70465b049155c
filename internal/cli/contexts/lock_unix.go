//go:build unix

package contexts

import (
	"os"

	"golang.org/x/sys/unix"
)

// lockFile locks a file until it is closed, or fails with errLocked.
func lockFile(f *os.File) error {
	for {
		switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err {
		case unix.EINTR:
		case unix.EWOULDBLOCK:
			return errLocked
		default:
			return os.NewSyscallError("flock", err)
		}
	}
}
