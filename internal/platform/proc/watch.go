package proc

import (
	"errors"
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Watch detects the end of a process that need not be a child of this one. Its pidfd
// holds the process: a later process with the same pid is not confused with it.
type Watch struct {
	f      *os.File
	closed atomic.Bool
}

// Open watches a process. It returns ESRCH if there is none.
func Open(pid int) (*Watch, error) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if errors.Is(err, unix.EINVAL) { // before Linux 5.10; Wait polls
		fd, err = unix.PidfdOpen(pid, 0)
	}
	if err != nil {
		return nil, os.NewSyscallError("pidfd_open", err)
	}
	return &Watch{f: os.NewFile(uintptr(fd), "pidfd")}, nil
}

// FromFD watches the process of a pidfd, which Close closes.
func FromFD(fd int) (*Watch, error) {
	// An older kernel that has no non-blocking pidfds reports an error on read.
	_ = unix.SetNonblock(fd, true)
	return &Watch{f: os.NewFile(uintptr(fd), "pidfd")}, nil
}

// pollInterval is the interval of polling on a kernel whose pidfds do not wake a reader.
const pollInterval = 50 * time.Millisecond

// Wait waits for the end of the process. It returns false if Close comes first. When
// the init of a pid namespace has ended, no process of the namespace is left.
func (w *Watch) Wait() bool {
	raw, err := w.f.SyscallConn()
	if err != nil {
		return false
	}
	if err = raw.Read(func(fd uintptr) bool { return readable(fd) }); err == nil {
		return true
	}
	for !w.closed.Load() {
		if w.Ended() {
			return true
		}
		time.Sleep(pollInterval)
	}
	return false
}

// Ended reports whether the process has ended.
func (w *Watch) Ended() (ended bool) {
	if raw, err := w.f.SyscallConn(); err == nil {
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

// Within reports whether the process ends within a duration.
func (w *Watch) Within(d time.Duration) bool {
	for until := time.Now().Add(d); !w.Ended(); time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			return false
		}
	}
	return true
}

// Close ends Wait and releases the pidfd.
func (w *Watch) Close() {
	w.closed.Store(true)
	w.f.Close()
}

// StatusWait is the maximum wait for the exit status of a process that its own parent,
// usually the host's init, has to reap first.
const StatusWait = time.Second

// Status returns the exit status of a process that is not a child of this one. It is
// unknown before Linux 6.15.
func (w *Watch) Status() (ws syscall.WaitStatus, known bool) {
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
	raw, err := w.f.SyscallConn()
	if err != nil {
		return 0, false
	}
	for until := time.Now().Add(StatusWait); ; time.Sleep(time.Millisecond) {
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
