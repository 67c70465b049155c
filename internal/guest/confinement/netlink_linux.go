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

// netlinkBytes is the maximum memory of all open netlink sockets of commands. It results in
// a limit of minNetlinkSockets to maxNetlinkSockets sockets. The kernel keeps unread answers,
// up to twice net.core.rmem_max for each socket, and charges them to no control group.
const (
	netlinkBytes      = 64 << 20
	minNetlinkSockets = 16
	maxNetlinkSockets = 64
)

// Netlink opens netlink sockets for commands, so that it can count the open ones: a system
// call filter on the threads that fork commands sends each socket(AF_NETLINK) to a listener
// of the guest.
//
// Each socket is added to an epoll set, which does not keep it open: the kernel removes a
// socket when its last descriptor in any process is closed. So the set contains exactly the
// open sockets.
//
// On a kernel without such listeners (before Linux 5.14) commands get no netlink sockets.
// Sockets are not counted in gVisor, where they belong to the sandbox's own kernel, and by a
// guest without isolation.
type Netlink struct {
	requests chan request
	epoll    int // epoll set of the open sockets
	limit    int // maximum number of open sockets
}

// request is a pending system call of a command.
type request struct {
	listener int
	call     notification
	done     chan struct{}
}

// NewNetlink must be called before any thread is filtered: new threads inherit the filter
// of their creator, and the thread that opens the sockets must have none.
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
		runtime.LockOSThread() // permanently
		close(locked)
		for a := range n.requests {
			n.answer(a)
			close(a.done)
		}
	}()
	<-locked
	return n, nil
}

// largestBuffer returns the maximum receive buffer of a socket, in bytes. It measures it,
// because net.core.rmem_max is not visible in every network namespace.
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

// Filter permanently restricts the calling thread and what is forked from it. It needs
// no_new_privs. A nil Netlink filters nothing.
func (n *Netlink) Filter() error {
	if n == nil {
		return nil
	}
	fd, err := seccompListener(netlinkFilter(unix.SECCOMP_RET_USER_NOTIF))
	if err == unix.EINVAL { // no listeners in this kernel
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

// netlinkFilter returns a program that answers socket(AF_NETLINK) with the given action and
// allows everything else. The sandbox's own filter denies other architectures, families
// and protocols; the stricter action of two filters applies.
func netlinkFilter(answer uint32) []unix.SockFilter {
	const (
		load        = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal       = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		give        = unix.BPF_RET | unix.BPF_K
		number      = 0  // of the call, in struct seccomp_data
		firstOfArgs = 16 // lower half; the kernel reads an int only
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

// listen forwards the calls of a listener until the last process with its filter has ended.
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
		<-a.done // the listener must stay open until then
	}
}

// answer opens a socket for a call, or refuses the call. It ignores a command that has
// ended.
func (n *Netlink) answer(a request) {
	fd, err := n.socket(int(a.call.args[1]), int(a.call.args[2]))
	if err == nil {
		flags := uint32(a.call.args[1]) & unix.SOCK_CLOEXEC
		err = handOver(a.listener, a.call.id, fd, flags)
		unix.Close(fd)
	}
	if errno, ok := err.(unix.Errno); ok && errno != unix.ENOENT {
		if errno == unix.EINVAL || errno == unix.ENOTTY { // this kernel cannot pass descriptors
			errno = unix.EAFNOSUPPORT
		}
		refuse(a.listener, a.call.id, errno)
	}
}

// socket opens a netlink socket and counts it.
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

// count returns how many sockets are open: the kernel lists the epoll set line by line. If
// the list cannot be read, it returns the limit.
func (n *Netlink) count() int {
	list, err := os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(n.epoll))
	if err != nil {
		return n.limit
	}
	return bytes.Count(list, []byte("tfd:"))
}
