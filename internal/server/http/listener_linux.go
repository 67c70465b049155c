package http

import (
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// Listener accepts connections on a unix socket from the daemon's own user and
// from root alone. Others are closed without a word.
type Listener struct{ *net.UnixListener }

// NewListener guards a listener.
func NewListener(l *net.UnixListener) *Listener { return &Listener{l} }

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		c, err := l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		if mayEnter(c) {
			return c, nil
		}
		c.Close()
	}
}

// mayEnter asks the kernel who is at the other end. If the kernel cannot say, the caller may not.
func mayEnter(c *net.UnixConn) bool {
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	ok := false
	err = raw.Control(func(fd uintptr) {
		cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		ok = err == nil && (cred.Uid == 0 || int(cred.Uid) == os.Geteuid())
	})
	return err == nil && ok
}
