package confinement

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// All commands together may have so many netlink sockets open at a time as hold
// netlinkBytes, but some in any case, and no more than anybody needs. The kernel keeps
// the answers that nobody reads, up to twice net.core.rmem_max for each socket, and no
// control group counts them.
const (
	netlinkBytes      = 64 << 20
	minNetlinkSockets = 16
	maxNetlinkSockets = 64
)

// Netlink opens the commands' netlink sockets for them, so that it can count the open
// ones. The kernel asks it: a thread on which commands are forked has a system call
// filter that sends each socket(AF_NETLINK) to a listener of the guest's.
//
// Each socket is put into an epoll set, which does not keep it open: the kernel takes it
// out when the last descriptor of it is closed, wherever that was. What is in the set is
// what is open.
//
// Where the kernel cannot request (before Linux 5.14) commands have no netlink sockets. In
// gVisor they are the sandbox's own kernel's, and in a guest that isolates nothing they
// are the user's.
type Netlink struct {
	requests chan request
	epoll    int // the epoll set
	limit    int // how many sockets may be in it
}

// request is a call of a command that waits for its answer.
type request struct {
	listener int
	call     notification
	done     chan struct{}
}

// NewNetlink must be called before any thread is filtered: threads begin with the filter
// of the one that made them, and the one that opens the sockets must have none.
func NewNetlink() (*Netlink, error) {
	open, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("netlink: %w", err)
	}
	buffer, err := largestBuffer()
	if err != nil {
		return nil, fmt.Errorf("netlink: %w", err)
	}
	n := &Netlink{requests: make(chan request), epoll: open, limit: min(max(netlinkBytes/buffer, minNetlinkSockets), maxNetlinkSockets)}
	locked := make(chan struct{})
	go func() {
		runtime.LockOSThread() // for good
		close(locked)
		for a := range n.requests {
			n.answer(a)
			close(a.done)
		}
	}()
	<-locked
	return n, nil
}

// largestBuffer gives how many bytes a socket here can keep, at most. It is the host's to
// say, in a file that is not shown in every network namespace.
func largestBuffer() (int, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, math.MaxInt32/2); err != nil {
		return 0, err
	}
	return unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF)
}

// Filter binds the calling thread, and what is forked from it, for good. It needs
// no_new_privs. A nil Netlink filters nothing.
func (n *Netlink) Filter() error {
	if n == nil {
		return nil
	}
	fd, err := seccompListener(netlinkFilter(unix.SECCOMP_RET_USER_NOTIF))
	if err == unix.EINVAL { // this kernel cannot request
		prog := netlinkFilter(unix.SECCOMP_RET_ERRNO | uint32(unix.EAFNOSUPPORT))
		return seccompFilter(&unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]})
	}
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err != nil {
		return fmt.Errorf("netlink: filter socket: %w", err)
	}
	listener := os.NewFile(uintptr(fd), "netlink listener")
	raw, err := listener.SyscallConn()
	if err != nil {
		listener.Close()
		return fmt.Errorf("netlink: %w", err)
	}
	go func() {
		defer listener.Close()
		n.listen(raw)
	}()
	return nil
}

// netlinkFilter is a program that gives an answer to socket(AF_NETLINK), and allows
// everything else. The sandbox's own filter refuses other families, architectures and
// protocols: of two filters the stricter answer holds.
func netlinkFilter(answer uint32) []unix.SockFilter {
	const (
		load        = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal       = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		give        = unix.BPF_RET | unix.BPF_K
		number      = 0  // of the call, in struct seccomp_data
		firstOfArgs = 16 // its lower half; the kernel reads no more of a C int
	)
	return []unix.SockFilter{
		{Code: load, K: number},
		{Code: equal, Jf: 3, K: unix.SYS_SOCKET},
		{Code: load, K: firstOfArgs},
		{Code: equal, Jf: 1, K: unix.AF_NETLINK},
		{Code: give, K: answer},
		{Code: give, K: unix.SECCOMP_RET_ALLOW},
	}
}

// listen passes on what a listener is asked, until no process has its filter any more.
func (n *Netlink) listen(raw syscall.RawConn) {
	for {
		a := request{done: make(chan struct{})}
		got, over := false, false
		err := raw.Read(func(fd uintptr) bool {
			a.listener = int(fd)
			a.call, got, over = nextNotification(a.listener)
			return got || over
		})
		if err != nil || over {
			return
		}
		n.requests <- a
		<-a.done // the listener stays open for that
	}
}

// answer opens a socket, or refuses it. A command that ended meanwhile needs neither.
func (n *Netlink) answer(a request) {
	fd, err := n.socket(int(a.call.args[1]), int(a.call.args[2]))
	if err == nil {
		flags := uint32(a.call.args[1]) & unix.SOCK_CLOEXEC
		err = handOver(a.listener, a.call.id, fd, flags)
		unix.Close(fd)
	}
	if errno, ok := err.(unix.Errno); ok && errno != unix.ENOENT {
		if errno == unix.EINVAL || errno == unix.ENOTTY { // this kernel has no handing over
			errno = unix.EAFNOSUPPORT
		}
		refuse(a.listener, a.call.id, errno)
	}
}

// socket makes a netlink socket that is counted.
func (n *Netlink) socket(kind, protocol int) (int, error) {
	if n.count() >= n.limit {
		return -1, unix.ENFILE
	}
	fd, err := unix.Socket(unix.AF_NETLINK, kind|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return -1, err
	}
	if err := unix.EpollCtl(n.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{}); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// count says how many sockets are open: the kernel lists the set line by line. Where it
// does not, all are.
func (n *Netlink) count() int {
	list, err := os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(n.epoll))
	if err != nil {
		return n.limit
	}
	return bytes.Count(list, []byte("tfd:"))
}
