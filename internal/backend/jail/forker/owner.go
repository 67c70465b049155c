package forker

import (
	"os"

	"golang.org/x/sys/unix"
)

// noFixup is SECBIT_NO_SETUID_FIXUP: a thread keeps its capabilities when it changes its
// user id.
const noFixup = 1 << 2

// as runs f on the calling thread with another effective user id and the thread's own
// capabilities; 0 keeps the id. The kernel charges a new user namespace, and the per-user
// quotas used in it, to the effective user id of the thread that creates it.
//
// The system calls are raw, because package syscall would change every thread.
func as(uid int, f func() error) (err error) {
	if uid == 0 {
		return f()
	}
	if err := unix.Prctl(unix.PR_SET_SECUREBITS, noFixup, 0, 0, 0); err != nil {
		return os.NewSyscallError("keep capabilities", err)
	}
	const same = ^uintptr(0)
	if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, same, uintptr(uid), same); e != 0 {
		return os.NewSyscallError("setresuid", e)
	}
	defer func() {
		// Only root of the host may leave a control group of version 1.
		if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, same, uintptr(os.Getuid()), same); e != 0 && err == nil {
			err = os.NewSyscallError("setresuid", e)
		}
	}()
	return f()
}

// quotas are the resource limits that the kernel copies into a new user namespace. They are
// the maximum that all its processes together may add to the count of its creator. The
// signals include those of POSIX timers.
var quotas = []struct {
	resource int
	most     uint64
}{
	{unix.RLIMIT_SIGPENDING, 16 << 10},
	{unix.RLIMIT_MSGQUEUE, 800 << 10},
	{unix.RLIMIT_MEMLOCK, 8 << 20},
}

// boundQuotas lowers this process's soft limits to the quotas, and for an ordinary user to
// half of the hard limit: the user's own processes are counted together with the sandboxes.
func boundQuotas() error {
	for _, q := range quotas {
		var l unix.Rlimit
		if err := unix.Getrlimit(q.resource, &l); err != nil {
			return os.NewSyscallError("getrlimit", err)
		}
		l.Cur = min(l.Cur, q.most)
		if os.Geteuid() != 0 {
			l.Cur = min(l.Cur, l.Max/2)
		}
		if err := unix.Prlimit(0, q.resource, &l, nil); err != nil {
			return os.NewSyscallError("prlimit", err)
		}
	}
	return nil
}
