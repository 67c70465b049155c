package sentrycmd

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"gvisor.dev/gvisor/runsc/cmd/util"
)

//go:linkname beforeFork syscall.runtime_BeforeFork
func beforeFork()

//go:linkname afterFork syscall.runtime_AfterFork
func afterFork()

//go:linkname afterForkInChild syscall.runtime_AfterForkInChild
func afterForkInChild()

// forkProcUnmounter does what sandboxsetup.ExecProcUmounter does, without running a program: it
// forks a process that keeps the capability to unmount /proc, and unmounts it when a byte is
// written to the returned file. The start of a program of this size takes more of the
// processor than all else that is done before the kernel is made.
func forkProcUnmounter() *os.File {
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		util.Fatalf("make a pipe: %v", err)
	}
	if errno := forkUnmounter(uintptr(pipe[0]), uintptr(pipe[1]), &procPath); errno != 0 {
		util.Fatalf("fork the process that unmounts /proc: %v", errno)
	}
	unix.Close(pipe[0])
	return os.NewFile(uintptr(pipe[1]), "procfs umount sync FD")
}

var procPath = [...]byte{'/', 'p', 'r', 'o', 'c', 0}

// forkUnmounter forks. The child has a copy of this memory and no runtime: it makes system calls
// only, with what is on its stack. It ends without unmounting when the other end of its pipe
// is closed.
//
//go:norace
//go:noinline
func forkUnmounter(r, w uintptr, path *[6]byte) unix.Errno {
	var b [1]byte
	beforeFork()
	pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 || pid != 0 {
		afterFork()
		return errno
	}
	afterForkInChild()
	unix.RawSyscall(unix.SYS_CLOSE, w, 0, 0)
	n, _, _ := unix.RawSyscall(unix.SYS_READ, r, uintptr(unsafe.Pointer(&b[0])), 1)
	code := uintptr(1)
	if n == 1 {
		_, _, errno = unix.RawSyscall(unix.SYS_UMOUNT2, uintptr(unsafe.Pointer(&path[0])), unix.MNT_DETACH, 0)
		if errno == 0 {
			code = 0
		}
	}
	for {
		unix.RawSyscall(unix.SYS_EXIT_GROUP, code, 0, 0)
	}
}
