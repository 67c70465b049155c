package initns

import (
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// dropAllThreads drops on every thread what drop drops on one, so that the process can continue
// as the guest without an execve. It returns false, with nothing changed, if that is not
// possible: a binary with cgo cannot change all its threads. Descriptors other than those to keep are closed.
//
// The session keyring also belongs to a thread; this process started with an empty one (see
// launch.Spawn). The bounding set of each thread is left to the guest, which empties it before
// it forks from a thread; until then nothing is executed.
func dropAllThreads(s *Spec, keep ...int) (bool, error) {
	if _, _, e := syscall.AllThreadsSyscall(unix.SYS_PRCTL, unix.PR_SET_KEEPCAPS, 1, 0); e == unix.ENOTSUP {
		return false, nil
	} else if e != 0 {
		return false, at("keep capabilities", e)
	}
	id := func(n int) uintptr { return uintptr(n) }
	if _, _, e := syscall.AllThreadsSyscall(unix.SYS_SETGROUPS, 0, 0, 0); e != 0 {
		return false, at("leave groups", e)
	}
	if _, _, e := syscall.AllThreadsSyscall(unix.SYS_SETRESGID, id(s.GID), id(s.GID), id(s.GID)); e != 0 {
		return false, at("become the guest's group", e)
	}
	if _, _, e := syscall.AllThreadsSyscall(unix.SYS_SETRESUID, id(s.UID), id(s.UID), id(s.UID)); e != 0 {
		return false, at("become the guest's user", e)
	}
	low, high := uint32(s.Caps), uint32(s.Caps>>32)
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	data := [2]unix.CapUserData{
		{Permitted: low, Effective: low, Inheritable: low},
		{Permitted: high, Effective: high, Inheritable: high},
	}
	_, _, e := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&hdr)), uintptr(unsafe.Pointer(&data[0])), 0)
	if e != 0 {
		return false, at("set capabilities", e)
	}
	// The filter sets no_new_privs on all threads too.
	if err := prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0); err != nil {
		return false, at("forbid new privileges", err)
	}
	const everyThread = 1 // SECCOMP_FILTER_FLAG_TSYNC
	if err := filter(s.Filter, everyThread); err != nil {
		return false, err
	}
	return true, closeRest(keep...)
}

// confine drops the privileges of a keeper whose kernel runs: capabilities, ways to regain them,
// and the system calls that a guest does not have either.
func confine(s *Spec) error {
	// The filter needs no_new_privs on its thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	_, _, e := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&hdr)), uintptr(unsafe.Pointer(&none[0])), 0)
	if e != 0 {
		return at("set capabilities", e)
	}
	if err := prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0); err != nil {
		return at("forbid new privileges", err)
	}
	const everyThread = 1 // SECCOMP_FILTER_FLAG_TSYNC
	return filter(s.Filter, everyThread)
}

// closeRest closes every descriptor except the standard three, those to keep, and the event
// descriptors of the runtime.
func closeRest(keep ...int) error {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return at("close descriptors", err)
	}
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd <= 2 || slices.Contains(keep, fd) {
			continue
		}
		switch target, err := os.Readlink("/proc/self/fd/" + e.Name()); {
		case err != nil: // the descriptor of the directory
		case strings.HasPrefix(target, "anon_inode:[event"):
		default:
			if err := unix.Close(fd); err != nil {
				return at("close descriptors", err)
			}
		}
	}
	return nil
}
