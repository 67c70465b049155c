package confinement

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Filter installs a seccomp program, in the kernel's form, for every thread of this process and what they start, and gives
// up new privileges. An empty program is an error.
func Filter(program []byte) error {
	if len(program) == 0 || len(program)%8 != 0 {
		return fmt.Errorf("a seccomp program of %d bytes: %w", len(program), unix.EINVAL)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no new privileges: %w", err)
	}
	// The kernel gives the other threads no_new_privs with the filter.
	prog := unix.SockFprog{Len: uint16(len(program) / 8), Filter: (*unix.SockFilter)(unsafe.Pointer(&program[0]))}
	thread, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog)))
	switch {
	case errno != 0:
		return fmt.Errorf("seccomp: %w", errno)
	case thread != 0:
		return fmt.Errorf("seccomp: thread %d cannot get the filter", thread)
	}
	return nil
}
