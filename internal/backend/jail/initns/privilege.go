package initns

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/backend/jail/network"
)

// CaptureStep is the step that captures outgoing connections.
const CaptureStep = "capture outgoing connections"

// setNetwork brings up the loopback interface, the only one, and captures what leaves it.
// Without capture nothing leaves it either, so that a host which cannot do that still has
// sandboxes. A kernel of the sandbox's own has its own network.
func setNetwork(s *Spec) error {
	if err := network.Up(); err != nil {
		return at("bring lo up", err)
	}
	if s.Keeper != nil {
		return nil
	}
	if err := network.Capture(); err != nil && s.Capture {
		return at(CaptureStep, err)
	}
	return nil
}

// limits are the resource limits of everything inside. A limit above the host's own is lowered
// to that.
var limits = []struct {
	resource int
	cur, max uint64
}{
	// No core dumps. With 1 byte the kernel also does not run the host's core dump
	// handler, which it does with 0.
	{unix.RLIMIT_CORE, 1, 1},
	// Old programs loop up to the soft limit. The hard limit bounds one process's part of
	// the host's table of open files, and of kernel memory that no control group counts:
	// a poll call may wait on as many descriptors. It is above 10,000 because the guest
	// removes trees of that depth with a descriptor for each level.
	{unix.RLIMIT_NOFILE, 16 << 10, 16 << 10},
	{unix.RLIMIT_MSGQUEUE, 819200, 819200},
	{unix.RLIMIT_MEMLOCK, 8 << 20, 8 << 20},
	{unix.RLIMIT_NICE, 0, 0},
	{unix.RLIMIT_RTPRIO, 0, 0},
	{unix.RLIMIT_SIGPENDING, 4096, 4096},
}

// kernelFiles is the maximum number of open files of each program of a sandbox's own kernel,
// which has all files of the sandbox open.
const kernelFiles = 128 << 10

// setLimits sets the resource limits, a new session and an empty keyring.
func setLimits(s *Spec) error {
	for _, l := range limits {
		if s.Keeper != nil && l.resource == unix.RLIMIT_NOFILE {
			l.max = kernelFiles
		}
		var have unix.Rlimit
		if err := unix.Getrlimit(l.resource, &have); err != nil {
			return at("read resource limits", err)
		}
		want := unix.Rlimit{Cur: min(l.cur, have.Max), Max: min(l.max, have.Max)}
		if err := unix.Prlimit(0, l.resource, &want, nil); err != nil {
			return at("set resource limits", err)
		}
	}
	// It fails if the process leads a session already.
	unix.Setsid()
	// The host's session keyring is inherited. A kernel without keys has none.
	_, _, e := unix.RawSyscall(unix.SYS_KEYCTL, unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0)
	if e != 0 && e != unix.ENOSYS && e != unix.EPERM {
		return at("leave the host's keyring", e)
	}
	return nil
}

// drop drops every privilege that the guest does not need, on this thread, and installs its filter.
func drop(s *Spec) error {
	if err := Drop(s); err != nil {
		return err
	}
	return filter(s.Filter, 0)
}

// Drop drops every privilege that a guest does not need, on this thread: of s it uses the ids, Switch, Caps and Bounding.
//
// The inheritable set, from which the guest gives identities their capabilities, is filled
// before the bounding set is emptied, because it cannot grow beyond that. Privileges by the
// file system (setuid bits and file capabilities) are disabled by no_new_privs and nosuid.
func Drop(s *Spec) error {
	// An ambient capability has to be inheritable.
	all, err := permitted()
	if err == nil {
		err = setCaps(all, all, s.Caps)
	}
	if err != nil {
		return at("set capabilities", err)
	}
	const last = 63
	for c := range uintptr(last + 1) {
		if s.Bounding&(1<<c) != 0 {
			continue
		}
		if err := prctl(unix.PR_CAPBSET_DROP, c, 0); err == unix.EINVAL {
			break // beyond the kernel's last capability
		} else if err != nil {
			return at("empty the bounding set", err)
		}
	}
	if s.Switch {
		if err := prctl(unix.PR_SET_KEEPCAPS, 1, 0); err != nil {
			return at("keep capabilities", err)
		}
		// Raw system calls, because only this thread becomes the guest.
		if _, _, e := unix.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0); e != 0 {
			return at("leave groups", e)
		}
		if _, _, e := unix.RawSyscall(unix.SYS_SETRESGID, uintptr(s.GID), uintptr(s.GID), uintptr(s.GID)); e != 0 {
			return at("become the guest's group", e)
		}
		if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(s.UID), uintptr(s.UID), uintptr(s.UID)); e != 0 {
			return at("become the guest's user", e)
		}
	}
	if err := setCaps(s.Caps, s.Caps, s.Caps); err != nil {
		return at("set capabilities", err)
	}
	if err := prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0); err != nil {
		return at("set ambient capabilities", err)
	}
	for c := range uintptr(64) {
		if s.Caps&(1<<c) != 0 {
			if err := prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, c); err != nil {
				return at("set ambient capabilities", err)
			}
		}
	}
	if err := prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0); err != nil {
		return at("forbid new privileges", err)
	}
	return nil
}

// filter installs a seccomp program on this thread, or on those that flags select.
func filter(program []byte, flags uintptr) error {
	if len(program) == 0 || len(program)%8 != 0 {
		return at("install the seccomp filter", unix.EINVAL)
	}
	prog := unix.SockFprog{
		Len:    uint16(len(program) / 8),
		Filter: (*unix.SockFilter)(unsafe.Pointer(&program[0])),
	}
	const setModeFilter = 1
	r, _, e := unix.RawSyscall(unix.SYS_SECCOMP, setModeFilter, flags, uintptr(unsafe.Pointer(&prog)))
	if e != 0 {
		return at("install the seccomp filter", e)
	}
	if r != 0 { // the id of a thread that cannot get the filter
		return at("install the seccomp filter", unix.EBUSY)
	}
	return nil
}

func prctl(option int, a, b uintptr) error {
	_, _, e := unix.RawSyscall6(unix.SYS_PRCTL, uintptr(option), a, b, 0, 0, 0)
	if e != 0 {
		return e
	}
	return nil
}

// permitted reads what this thread may hold.
func permitted() (uint64, error) {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	_, _, e := unix.RawSyscall(unix.SYS_CAPGET, uintptr(unsafe.Pointer(&hdr)), uintptr(unsafe.Pointer(&data[0])), 0)
	if e != 0 {
		return 0, e
	}
	return uint64(data[0].Permitted) | uint64(data[1].Permitted)<<32, nil
}

func setCaps(permitted, effective, inheritable uint64) error {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	data := [2]unix.CapUserData{
		{Permitted: uint32(permitted), Effective: uint32(effective), Inheritable: uint32(inheritable)},
		{Permitted: uint32(permitted >> 32), Effective: uint32(effective >> 32), Inheritable: uint32(inheritable >> 32)},
	}
	_, _, e := unix.RawSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&hdr)), uintptr(unsafe.Pointer(&data[0])), 0)
	if e != 0 {
		return e
	}
	return nil
}
