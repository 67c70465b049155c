package contexts

import (
	"os"

	"golang.org/x/sys/windows"
)

// lockFile locks a file until it is closed, or fails with errLocked.
func lockFile(f *os.File) error {
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	switch err := windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, &windows.Overlapped{}); err {
	case windows.ERROR_LOCK_VIOLATION, windows.ERROR_IO_PENDING:
		return errLocked
	default:
		return os.NewSyscallError("LockFileEx", err)
	}
}
