package run

import (
	"fmt"
	"os"

	seccomp "github.com/elastic/go-seccomp-bpf"
	"golang.org/x/sys/unix"
)

// calls are the system calls that the Go runtime needs to run a module: to read and write open
// descriptors, to allocate memory, to wait, to start threads and to end. None of them opens a
// file or a socket, or executes a program.
var calls = []string{
	"read", "write", "readv", "writev", "close", "fcntl", "fstat", "lseek", "ppoll",
	"mmap", "munmap", "mprotect", "madvise", "mincore",
	"futex", "nanosleep", "clock_nanosleep", "clock_gettime", "gettimeofday", "sched_yield", "restart_syscall",
	"rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "sigaltstack", "getpid", "gettid",
	"epoll_pwait", "epoll_ctl", "eventfd2", "set_robust_list", "rseq", "getrandom", "membarrier",
	"exit", "exit_group",
}

// giveUpCalls makes every other system call of this process fail from now on.
func giveUpCalls() error {
	// PR_SET_VMA, by which Go names its memory, fails and is ignored. A signal can be sent to
	// this process only.
	err := seccomp.LoadFilter(seccomp.Filter{
		NoNewPrivs: true, Flag: seccomp.FilterFlagTSync,
		Policy: seccomp.Policy{
			DefaultAction: seccomp.ActionErrno | seccomp.Action(unix.EPERM),
			Syscalls: []seccomp.SyscallGroup{{Action: seccomp.ActionAllow, Names: calls, NamesWithCondtions: []seccomp.NameWithConditions{
				{Name: "clone", Conditions: seccomp.ArgumentConditions{{Argument: 0, Operation: seccomp.BitsSet, Value: unix.CLONE_THREAD}}},
				{Name: "tgkill", Conditions: seccomp.ArgumentConditions{{Argument: 0, Operation: seccomp.Equal, Value: uint64(os.Getpid())}}},
			}}},
		},
	})
	if err != nil {
		return fmt.Errorf("restrict system calls: %w", err)
	}
	return nil
}
