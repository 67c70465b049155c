package jail

import (
	"errors"
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ending sees the end of a process that need not be a child of this one. Its
// descriptor holds the process: a number that means another by now is not taken for
// it.
type ending struct {
	f      *os.File
	closed atomic.Bool
}

// watchEnd begins to watch a process. It fails with ESRCH when there is none.
func watchEnd(pid int) (*ending, error) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if errors.Is(err, unix.EINVAL) { // before Linux 5.10; it is polled then
		fd, err = unix.PidfdOpen(pid, 0)
	}
	if err != nil {
		return nil, os.NewSyscallError("pidfd_open", err)
	}
	return &ending{f: os.NewFile(uintptr(fd), "pidfd")}, nil
}

// newEnding is watchEnd with a descriptor of the process, which is its own then.
func newEnding(fd int) (*ending, error) {
	// Kernels that know no such descriptors that do not block say so when they are read.
	_ = unix.SetNonblock(fd, true)
	return &ending{f: os.NewFile(uintptr(fd), "pidfd")}, nil
}

// blindLook is how often an end is looked for where nothing tells of it.
const blindLook = 50 * time.Millisecond

// wait waits for the end of the process; it is false when close came first. When
// the init of a pid namespace has ended, nothing of the namespace is left.
func (e *ending) wait() bool {
	raw, err := e.f.SyscallConn()
	if err != nil {
		return false
	}
	if err = raw.Read(func(fd uintptr) bool { return readable(fd) }); err == nil {
		return true
	}
	for !e.closed.Load() { // a kernel whose descriptors of processes tell nobody
		if e.ended() {
			return true
		}
		time.Sleep(blindLook)
	}
	return false
}

// ended says whether the process has ended by now.
func (e *ending) ended() (ended bool) {
	if raw, err := e.f.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { ended = readable(fd) })
	}
	return ended
}

func readable(fd uintptr) bool {
	set := [1]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(set[:], 0)
		if err != unix.EINTR {
			return err == nil && n > 0
		}
	}
}

// within says whether the process ends in so much time.
func (e *ending) within(d time.Duration) bool {
	for until := time.Now().Add(d); !e.ended(); time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			return false
		}
	}
	return true
}

// close ends a wait, and the watch.
func (e *ending) close() {
	e.closed.Store(true)
	e.f.Close()
}

// statusWait bounds the wait for the status of a process that its own parent, most
// often the machine's init, has to collect first.
const statusWait = time.Second

// status asks the kernel how a process ended that is no child of this one. Kernels
// before 6.15 do not tell.
func (e *ending) status() (ws syscall.WaitStatus, known bool) {
	// struct pidfd_info of linux/pidfd.h, in its first form.
	type info struct {
		mask, cgroup uint64
		ids          [11]uint32
		exit         int32
	}
	const (
		exited = 1 << 3 // PIDFD_INFO_EXIT
		get    = 3<<30 | unsafe.Sizeof(info{})<<16 | 0xff<<8 | 11
	)
	raw, err := e.f.SyscallConn()
	if err != nil {
		return 0, false
	}
	for until := time.Now().Add(statusWait); ; time.Sleep(time.Millisecond) {
		i := info{mask: exited}
		var errno syscall.Errno
		err := raw.Control(func(fd uintptr) {
			_, _, errno = unix.Syscall(unix.SYS_IOCTL, fd, get, uintptr(unsafe.Pointer(&i)))
		})
		switch {
		case err != nil, errno == unix.ENOTTY, errno == unix.EINVAL, errno == unix.ESRCH:
			return 0, false
		case errno == 0 && i.mask&exited != 0:
			return syscall.WaitStatus(i.exit), true
		case time.Now().After(until):
			return 0, false
		}
	}
}
