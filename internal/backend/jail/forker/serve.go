package forker

import (
	"encoding/json"
	"errors"
	"os"
	"runtime"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// socketFD is the daemon's socket, the first descriptor after the standard ones.
const socketFD = 3

// Serve runs a forker and returns its exit code. clocks makes a time namespace for the
// children of the calling thread.
func Serve(clocks func() error) int {
	// A process that runs an unreadable program is not dumpable, and then its /proc files,
	// such as the uid_map of a child, cannot be written.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0); err != nil {
		return 1
	}
	unix.CloseOnExec(socketFD)
	if err := boundQuotas(); err != nil {
		return 1
	}
	if len(os.Args) > 2 && os.Args[2] == sharedArg && boundShared() != nil {
		return 1
	}
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return 1
	}
	f := &worker{null: null, clocks: clocks, born: map[int]int{}}
	f.more.L = &f.mu
	go f.reap()
	for {
		o, fds, err := receive()
		if err != nil {
			return 0 // the daemon has ended
		}
		// The order changes the thread, which therefore ends with it.
		go func() {
			runtime.LockOSThread()
			f.carryOut(o, fds)
		}()
	}
}

// worker is a forker at work.
type worker struct {
	null   int
	clocks func() error

	mu    sync.Mutex
	more  sync.Cond // a fork has ended
	forks int       // how many are under way
	done  int       // how many have ended
	// born maps live children to the sockets on which their exit status is reported.
	born map[int]int
}

// The indexes of an order's descriptors.
const (
	fdControl = iota // the new process's socket, its first after the standard ones
	fdAnswer
	fdGroup // may be missing
)

// receive reads one order with its descriptors.
func receive() (*Order, []int, error) {
	buf, oob := make([]byte, maxPacket), make([]byte, unix.CmsgSpace(4*(fdGroup+1)))
	var n, oobn int
	for {
		var err error
		if n, oobn, _, _, err = unix.Recvmsg(socketFD, buf, oob, unix.MSG_CMSG_CLOEXEC); err == nil {
			break
		} else if err != unix.EINTR {
			return nil, nil, err
		}
	}
	if n == 0 {
		return nil, nil, os.ErrClosed
	}
	msgs, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil || len(msgs) != 1 {
		return nil, nil, errors.New("the order has no file descriptors")
	}
	fds, err := unix.ParseUnixRights(&msgs[0])
	if err != nil || len(fds) <= fdAnswer {
		return nil, nil, errors.New("the order has no file descriptors")
	}
	o := new(Order)
	return o, fds, json.Unmarshal(buf[:n], o)
}

// carryOut forks and answers.
func (f *worker) carryOut(o *Order, fds []int) {
	f.mu.Lock()
	f.forks++
	f.mu.Unlock()
	pidfd := -1
	pid, err := f.fork(o, fds, &pidfd)
	a := answer{PID: pid}
	if err != nil {
		a.Text = err.Error()
		errors.As(err, &a.Errno)
	}
	var oob []byte
	if pidfd >= 0 {
		oob = unix.UnixRights(pidfd)
	}
	if b, err := json.Marshal(a); err == nil {
		// If the daemon has ended, the child's socket is closed and the child ends too.
		_ = unix.Sendmsg(fds[fdAnswer], b, oob, nil, unix.MSG_NOSIGNAL)
	}
	if pidfd >= 0 {
		unix.Close(pidfd)
	}
	f.mu.Lock()
	f.forks--
	f.done++
	for i, fd := range fds {
		if i == fdAnswer && pid > 0 {
			f.born[pid] = fd
			continue
		}
		unix.Close(fd)
	}
	f.mu.Unlock()
	f.more.Broadcast()
}

// reap reaps the children and reports their exit status.
func (f *worker) reap() {
	for {
		// The child is not reaped yet: its pid cannot be reused until its socket is known.
		pid, err := ended()
		f.mu.Lock()
		if err != nil { // there is no child
			for n := f.done; len(f.born) == 0 && f.done == n; {
				f.more.Wait()
			}
			f.mu.Unlock()
			continue
		}
		// Its fork may not have returned yet. A fork that fails reaps its own child.
		for f.forks > 0 {
			if _, known := f.born[pid]; known {
				break
			}
			f.more.Wait()
		}
		var e end
		if got, err := unix.Wait4(pid, (*unix.WaitStatus)(&e.Status), unix.WNOHANG, nil); err == nil && got == pid {
			if fd, known := f.born[pid]; known {
				delete(f.born, pid)
				if b, err := json.Marshal(e); err == nil {
					_ = unix.Sendmsg(fd, b, nil, nil, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT)
				}
				unix.Close(fd)
			}
		}
		f.mu.Unlock()
	}
}

// ended waits until a child has ended, without reaping it.
func ended() (pid int, err error) {
	var info unix.Siginfo
	for {
		if err = unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOWAIT, nil); err != unix.EINTR {
			break
		}
	}
	// si_pid follows three numbers of four bytes, aligned to a word.
	const at = max(12, 2*unsafe.Sizeof(uintptr(0)))
	return int(*(*int32)(unsafe.Add(unsafe.Pointer(&info), at))), err
}

// fork is called on a thread that ends afterwards. The thread's session keyring, time
// namespace and timer slack are made for this child, which inherits them.
func (f *worker) fork(o *Order, fds []int, pidfd *int) (pid int, err error) {
	group := -1
	if len(fds) > fdGroup {
		group = fds[fdGroup]
	}
	attr, err := o.attributes(group, pidfd)
	if err != nil {
		return 0, err
	}
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, o.Slack, 0, 0, 0); err != nil {
		return 0, os.NewSyscallError("prctl", err)
	}
	if o.Clocks {
		if err := f.clocks(); err != nil {
			return 0, err
		}
	}
	if o.Keyring {
		_, _, e := unix.RawSyscall(unix.SYS_KEYCTL, unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0)
		if e != 0 && e != unix.ENOSYS && e != unix.EPERM {
			return 0, os.NewSyscallError("leave the session keyring", e)
		}
	}
	null := uintptr(f.null)
	o.Seat.FD = group
	err = o.Seat.Take(func(int) error {
		return as(o.Owner, func() (err error) {
			pid, err = syscall.ForkExec("/proc/self/exe", o.Args, &syscall.ProcAttr{
				Dir: "/", Env: o.Env, Sys: attr,
				// The standard three, then the control socket, then the number that it gets as the
				// guest's: a package may start the runtime's poller while it is initialised, whose
				// descriptor must not be there.
				Files: []uintptr{null, null, null, uintptr(fds[fdControl]), null},
			})
			return os.NewSyscallError("fork", err)
		})
	})
	return pid, err
}
