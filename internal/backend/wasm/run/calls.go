package run

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// calls are the system calls that the Go runtime needs to run a module: to read and write open
// descriptors, to allocate memory, to wait, to start threads and to end. None of them opens a
// file or a socket, or executes a program.
var calls = []uint32{
	unix.SYS_READ, unix.SYS_WRITE, unix.SYS_READV, unix.SYS_WRITEV, unix.SYS_CLOSE, unix.SYS_FCNTL, unix.SYS_FSTAT, unix.SYS_LSEEK, unix.SYS_PPOLL,
	unix.SYS_MMAP, unix.SYS_MUNMAP, unix.SYS_MPROTECT, unix.SYS_MADVISE, unix.SYS_MINCORE,
	unix.SYS_FUTEX, unix.SYS_NANOSLEEP, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_CLOCK_GETTIME, unix.SYS_GETTIMEOFDAY, unix.SYS_SCHED_YIELD, unix.SYS_RESTART_SYSCALL,
	unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGRETURN, unix.SYS_SIGALTSTACK, unix.SYS_GETPID, unix.SYS_GETTID,
	unix.SYS_EPOLL_PWAIT, unix.SYS_EPOLL_CTL, unix.SYS_EVENTFD2, unix.SYS_SET_ROBUST_LIST, unix.SYS_RSEQ, unix.SYS_GETRANDOM, unix.SYS_MEMBARRIER,
	unix.SYS_EXIT, unix.SYS_EXIT_GROUP,
}

// architectures are the values of AUDIT_ARCH.
var architectures = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}

// giveUpCalls makes every other system call of this process fail with EPERM from now on.
func giveUpCalls() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl", err)
	}
	program, err := filter()
	if err != nil {
		return fmt.Errorf("restrict system calls: %w", err)
	}
	code := make([]unix.SockFilter, len(program))
	for i, p := range program {
		code[i] = unix.SockFilter{Code: p.Op, Jt: p.Jt, Jf: p.Jf, K: p.K}
	}
	prog := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	n, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(code)
	switch {
	case errno != 0:
		return os.NewSyscallError("seccomp", errno)
	case n != 0:
		return fmt.Errorf("seccomp: thread %d could not be restricted", n)
	}
	return nil
}

// filter returns the program that decides about system calls.
func filter() ([]bpf.RawInstruction, error) {
	architecture, ok := architectures[runtime.GOARCH]
	if !ok {
		return nil, fmt.Errorf("the processor %s is not supported", runtime.GOARCH)
	}
	// Offsets in seccomp_data.
	const number, arch, first = 0, 4, 16
	allow := bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}
	refuse := func(errno unix.Errno) bpf.Instruction {
		return bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(errno)}
	}
	p := []bpf.Instruction{
		bpf.LoadAbsolute{Off: arch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: architecture, SkipTrue: 1},
		bpf.RetConstant{Val: unix.SECCOMP_RET_KILL_PROCESS},
		bpf.LoadAbsolute{Off: number, Size: 4},
		// A C library then falls back to clone, whose flags can be seen.
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.SYS_CLONE3, SkipTrue: 1},
		refuse(unix.ENOSYS),
		// A thread is no process, and a signal goes to this process only.
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.SYS_CLONE, SkipTrue: 4},
		bpf.LoadAbsolute{Off: first, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: unix.CLONE_THREAD, SkipFalse: 1},
		allow,
		refuse(unix.EPERM),
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.SYS_TGKILL, SkipTrue: 4},
		bpf.LoadAbsolute{Off: first, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(os.Getpid()), SkipFalse: 1},
		allow,
		refuse(unix.EPERM),
	}
	for _, call := range calls {
		p = append(p, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: call, SkipTrue: 1}, allow)
	}
	return bpf.Assemble(append(p, refuse(unix.EPERM)))
}
