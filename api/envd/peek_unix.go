//go:build unix

package envd

import (
	"net"
	"syscall"
)

// peek reports whether an idle connection is alive, and whether that is known.
func peek(conn net.Conn) (alive, known bool) {
	sc, ok := conn.(syscall.Conn)
	if !ok {
		return true, false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return false, true
	}
	var b [1]byte
	err = raw.Control(func(fd uintptr) {
		// The descriptor is non-blocking: a live idle peer gives EAGAIN. A byte
		// that nobody asked for spoils the connection as much as its end.
		_, _, rerr := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK)
		alive = rerr == syscall.EAGAIN
	})
	return alive && err == nil, true
}
