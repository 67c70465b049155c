package tunnel

import (
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// Pair returns the two ends of a stream.
func Pair() (a, b *net.UnixConn, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	var ends [2]*net.UnixConn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "stream")
		c, cerr := net.FileConn(f)
		f.Close()
		if u, ok := c.(*net.UnixConn); ok {
			ends[i] = u
		}
		if cerr != nil {
			err = cerr
		}
	}
	if err != nil {
		for _, e := range ends {
			if e != nil {
				e.Close()
			}
		}
		return nil, nil, err
	}
	return ends[0], ends[1], nil
}
