package forker

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Child is a forked process. It is a child of the forker, not of this process.
type Child struct {
	PID int
	// FD is a pidfd, or -1 if this kernel has none. The caller closes it.
	FD int

	status int // the socket on which the forker reports the exit status; -1 after that
}

// Ended waits until the process was reaped and returns its exit status. It returns false if
// the forker does not report it in time.
func (c *Child) Ended(wait time.Duration) (syscall.WaitStatus, bool) {
	if c.status < 0 {
		return 0, false
	}
	var e end
	fd, err := c.receive(&e, wait)
	if fd >= 0 {
		unix.Close(fd)
	}
	return e.Status, err == nil
}

// Forget stops waiting for the exit status.
func (c *Child) Forget() {
	if c.status >= 0 {
		unix.Close(c.status)
		c.status = -1
	}
}

// Close is Forget, and closes FD.
func (c *Child) Close() {
	c.Forget()
	if c.FD >= 0 {
		unix.Close(c.FD)
		c.FD = -1
	}
}

// receive reads the forker's next packet, and its descriptor, if there is one.
func (c *Child) receive(what any, wait time.Duration) (fd int, err error) {
	left := unix.NsecToTimeval(int64(wait))
	if err := unix.SetsockoptTimeval(c.status, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &left); err != nil {
		return -1, os.NewSyscallError("setsockopt", err)
	}
	buf, oob := make([]byte, maxAnswer), make([]byte, unix.CmsgSpace(4))
	for {
		n, oobn, _, _, err := unix.Recvmsg(c.status, buf, oob, unix.MSG_CMSG_CLOEXEC)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			return -1, errors.New("timeout waiting for a response")
		case err != nil:
			return -1, os.NewSyscallError("recvmsg", err)
		case n == 0:
			return -1, io.ErrUnexpectedEOF // it has ended
		}
		fd = -1
		if msgs, err := unix.ParseSocketControlMessage(oob[:oobn]); err == nil && len(msgs) == 1 {
			if fds, err := unix.ParseUnixRights(&msgs[0]); err == nil && len(fds) == 1 {
				fd = fds[0]
			}
		}
		return fd, json.Unmarshal(buf[:n], what)
	}
}
