package guest

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// rawSetGroups sets the calling thread's supplementary groups alone.
func rawSetGroups(n int, groups *uint32) error {
	_, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(n), uintptr(unsafe.Pointer(groups)), 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// seccompFilter binds the calling thread alone.
func seccompFilter(prog *unix.SockFprog) error {
	_, _, errno := unix.RawSyscall(unix.SYS_PRCTL, unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(prog)))
	if errno != 0 {
		return errno
	}
	return nil
}

// siginfoPid reads si_pid of a siginfo that waitid filled in.
func siginfoPid(info *unix.Siginfo) int {
	// si_signo, si_errno and si_code come first, then the union, aligned to a
	// word; si_pid is the first of it.
	off := unsafe.Sizeof(uintptr(0))
	if off < 8 {
		return int(*(*int32)(unsafe.Add(unsafe.Pointer(info), 12)))
	}
	return int(*(*int32)(unsafe.Add(unsafe.Pointer(info), 16)))
}

// sigaction is the kernel's struct with the handler alone set.
type sigaction struct {
	handler  uintptr
	flags    uint64
	restorer uintptr
	mask     uint64
}

// sigsetSize is the size of the kernel's signal set, in bytes.
const sigsetSize = 8

// disposition sets what a signal does, below the Go runtime.
func disposition(sig unix.Signal, handler uintptr) error {
	act := sigaction{handler: handler}
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&act)), 0, sigsetSize, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// handled says whether a signal has a handler.
func handled(sig unix.Signal) bool {
	var act sigaction
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), 0, uintptr(unsafe.Pointer(&act)), 8, 0, 0)
	return errno == 0 && act.handler > sigIgnore
}
