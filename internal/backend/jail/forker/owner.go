package forker

import (
	"os"

	"golang.org/x/sys/unix"
)

// noFixup (SECBIT_NO_SETUID_FIXUP) lets a thread keep its capabilities when it changes
// its user id.
const noFixup = 1 << 2

// as runs f on the calling thread with another effective user id and the thread's own
// capabilities. The kernel charges a new user namespace, and what is used in it of each
// per-user quota, to the effective user id of the thread that creates it. Zero means to
// keep the id.
//
// The calls are raw: package syscall would change every thread of the process.
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
		// A thread in a control group of version 1 may leave it as the host's root only.
		if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, same, uintptr(os.Getuid()), same); e != 0 && err == nil {
			err = os.NewSyscallError("setresuid", e)
		}
	}()
	return f()
}

// quotas are the resource limits that the kernel copies into a user namespace when it
// is created. They bound what all processes of the namespace together add to the count
// of its creator. The signals include those of POSIX timers.
var quotas = []struct {
	resource int
	most     uint64
}{
	{unix.RLIMIT_SIGPENDING, 16 << 10},
	{unix.RLIMIT_MSGQUEUE, 800 << 10},
	{unix.RLIMIT_MEMLOCK, 8 << 20},
}

// boundQuotas lowers this process's soft limits to the quotas, and to half of what an
// ordinary user has: that user's own processes are counted together with its sandboxes,
// and no sandbox gets more once the half is used.
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
