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

// Child is a process that was forked. It is no child of this one.
type Child struct {
	PID int
	// FD is a descriptor of the process (pidfd_open), or -1 where this kernel has none.
	// It is the caller's to close.
	FD int

	said int // where the forker says how it ended; -1 when that was heard
}

// Ended gives the status with which the process ended, once it was collected: it waits
// for that so long. It is false when the forker does not say.
func (c *Child) Ended(wait time.Duration) (syscall.WaitStatus, bool) {
	if c.said < 0 {
		return 0, false
	}
	var e end
	fd, err := c.hear(&e, wait)
	if fd >= 0 {
		unix.Close(fd)
	}
	return e.Status, err == nil
}

// Forget gives up hearing of its end.
func (c *Child) Forget() {
	if c.said >= 0 {
		unix.Close(c.said)
		c.said = -1
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

// hear reads what the forker says next, with a descriptor where one comes along.
func (c *Child) hear(what any, wait time.Duration) (fd int, err error) {
	left := unix.NsecToTimeval(int64(wait))
	if err := unix.SetsockoptTimeval(c.said, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &left); err != nil {
		return -1, os.NewSyscallError("setsockopt", err)
	}
	buf, oob := make([]byte, maxAnswer), make([]byte, unix.CmsgSpace(4))
	for {
		n, oobn, _, _, err := unix.Recvmsg(c.said, buf, oob, unix.MSG_CMSG_CLOEXEC)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			return -1, errors.New("nothing is said in time")
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
