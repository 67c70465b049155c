package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
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

// NoCoreDumps makes the kernel write no memory of this process, and of those that it starts, to a
// file when they crash, and not run the host's handler of core dumps, which it does with a limit of 0 bytes, not with 1.
// Where the limit is 0 already, and may not be raised, it stays so. NoCoreDumps cannot be undone.
func NoCoreDumps() error {
	err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 1, Max: 1})
	if errors.Is(err, unix.EPERM) {
		err = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
	}
	if err != nil {
		return fmt.Errorf("forbid core dumps: %w", err)
	}
	return nil
}

// ID names a process beyond the reuse of its pid. Start is its start time, in clock
// ticks since boot.
type ID struct {
	PID   int
	Start uint64
}

// Identify returns the identity of a live process.
func Identify(pid int) (ID, error) {
	s, err := Read(pid)
	if err == nil && s.Ended() {
		err = fmt.Errorf("process %d has ended", pid)
	}
	if err != nil {
		return ID{}, err
	}
	return s.ID, nil
}

// Alive reports whether this process, and not a later one with its pid, is alive.
func (p ID) Alive() bool {
	now, err := Identify(p.PID)
	return err == nil && now == p
}

// Encode returns the text that Decode reads.
func (p ID) Encode() []byte { return fmt.Appendf(nil, "%d %d\n", p.PID, p.Start) }

// Decode reads an encoded identity. It reports false if the text is truncated or
// malformed.
func Decode(b []byte) (ID, bool) {
	var p ID
	if !bytes.HasSuffix(b, []byte("\n")) {
		return p, false
	}
	n, err := fmt.Sscanf(string(b), "%d %d\n", &p.PID, &p.Start)
	return p, err == nil && n == 2 && p.PID > 1
}

// Kill sends SIGKILL to the process, unless it has ended, and waits for its end if wait
// is set. It reports whether the process was alive.
func (p ID) Kill(ctx context.Context, wait bool) (bool, error) {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if err == unix.ESRCH {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer unix.Close(fd)
	// The descriptor holds the pid: what is read now stays true.
	if !p.Alive() {
		return false, nil
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && err != unix.ESRCH {
		return true, err
	}
	for wait {
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		switch got, err := unix.Poll(poll, 20); {
		case err != nil && err != unix.EINTR:
			return true, err
		case got > 0:
			return true, nil
		case ctx.Err() != nil:
			return true, ctx.Err()
		}
	}
	return true, nil
}

// BootID names the current boot of the host.
func BootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b)), err
}

// tick is the unit of times in /proc: USER_HZ is 100 wherever Linux runs Go.
const tick = time.Second / 100

// Stat is what /proc/PID/stat says about a process.
type Stat struct {
	ID
	Parent  int
	State   byte
	Threads int64
	// CPU is the processor time of the process and of the children that it waited for.
	CPU time.Duration
	// Memory is the resident set, in bytes.
	Memory int64
}

// Ended reports whether the process has ended and was not reaped yet: it has no memory,
// files or namespaces any more.
func (s Stat) Ended() bool { return s.State == 'Z' || s.State == 'X' }

// Read reads the state of a process.
func Read(pid int) (Stat, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Stat{}, err
	}
	// The name, in parentheses, may contain any byte: fields count from the last one.
	i := bytes.LastIndexByte(b, ')')
	f := strings.Fields(string(b[i+1:]))
	if i < 0 || len(f) < 22 {
		return Stat{}, fmt.Errorf("/proc/%d/stat is malformed", pid)
	}
	field := func(n int) int64 { // as proc(5) counts them
		v, _ := strconv.ParseInt(f[n-3], 10, 64)
		return v
	}
	start, err := strconv.ParseUint(f[22-3], 10, 64)
	return Stat{
		ID: ID{pid, start}, Parent: int(field(4)), State: f[0][0], Threads: field(20),
		CPU:    time.Duration(field(14)+field(15)+field(16)+field(17)) * tick,
		Memory: field(24) * int64(os.Getpagesize()),
	}, err
}

// maxTree is the maximum number of processes of a tree that are read.
const maxTree = 1 << 16

// Usage is the sum over a tree of processes.
type Usage struct {
	Processes int64
	Tasks     int64 // processes and their threads
	CPU       time.Duration
	Memory    int64 // resident bytes; shared pages are counted for each process
}

// TreeUsage sums up a process and its descendants. For the init of a pid namespace
// that is the whole namespace, because an orphan becomes its child.
func TreeUsage(pid int) Usage {
	var u Usage
	walk(pid, func(pid int) bool {
		s, err := Read(pid)
		if err != nil {
			return false
		}
		u.CPU += s.CPU
		u.Processes++
		u.Tasks += s.Threads
		u.Memory += s.Memory
		return true
	})
	return u
}

// Tree lists a process and its descendants.
func Tree(pid int) (all []int) {
	walk(pid, func(pid int) bool {
		all = append(all, pid)
		return true
	})
	return all
}

// walk visits a process and its descendants, but not those of a process for which
// visit returns false.
func walk(pid int, visit func(pid int) bool) {
	queue := []int{pid}
	for n := 0; n < len(queue) && n < maxTree; n++ {
		if visit(queue[n]) {
			queue = append(queue, children(queue[n])...)
		}
	}
}

// children lists the child processes of a process.
func children(pid int) (all []int) {
	dir := fmt.Sprintf("/proc/%d/task/", pid)
	tasks, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	for _, t := range tasks {
		b, err := os.ReadFile(dir + t.Name() + "/children")
		if err != nil {
			continue
		}
		for _, c := range strings.Fields(string(b)) {
			if child, err := strconv.Atoi(c); err == nil {
				all = append(all, child)
			}
		}
	}
	return all
}
