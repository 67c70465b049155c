package initns

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// dropEverywhere gives up on every thread of this process what drop gives up on
// one, so that the process can go on as the guest without an execve. It says no,
// with nothing changed, where that cannot be: a binary with cgo cannot act on all
// of its threads.
//
// The session keyring is each thread's own too; the one that this process was
// born with is empty already (see the backend's spawn). One thing is left to the
// guest: each thread's bounding set, which the guest empties before it forks from
// a thread. Until then the set cannot matter, since nothing here executes
// anything.
func dropEverywhere(s *Spec) (bool, error) {
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
	// With the filter come no_new_privs, for all threads too.
	if err := prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0); err != nil {
		return false, at("forbid new privileges", err)
	}
	const everyThread = 1 // SECCOMP_FILTER_FLAG_TSYNC
	if err := filter(s.Filter, everyThread); err != nil {
		return false, err
	}
	return true, closeRest()
}

// confine takes everything from a keeper whose kernel runs: capabilities, the way
// back to them, and the system calls that no guest has either.
func confine(s *Spec) error {
	// no_new_privs is set on one thread, and the filter is installed from that one:
	// from another, without capabilities, the kernel refuses it.
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

// closeRest closes what an execve would have closed: every descriptor but the
// standard three, the guest's two, and those by which the runtime waits.
func closeRest() error {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return at("close descriptors", err)
	}
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd <= 4 {
			continue
		}
		switch target, err := os.Readlink("/proc/self/fd/" + e.Name()); {
		case err != nil: // the one that read the directory
		case strings.HasPrefix(target, "anon_inode:[event"):
		default:
			if err := unix.Close(fd); err != nil {
				return at("close descriptors", err)
			}
		}
	}
	return nil
}
