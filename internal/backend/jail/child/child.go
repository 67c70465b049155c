package child

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/backend/jail/forker"
	"hortus.dev/internal/backend/jail/initns"
	"hortus.dev/internal/guest/birth"
	"hortus.dev/internal/platform/proc"
)

// reapWait is the maximum wait for the end of a killed process.
const reapWait = 5 * time.Second

// Child is a sandbox's first process while it starts. It is a child of the forker.
type Child struct {
	*forker.Child
	Proc *os.Process
	// Conn is the control socket.
	Conn *net.UnixConn
}

// Pair makes a control socket: this process's end, and the file that the child inherits.
func Pair() (*net.UnixConn, *os.File, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("control socket: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "control"), os.NewFile(uintptr(pair[1]), "control")
	defer ours.Close()
	c, err := net.FileConn(ours)
	if err != nil {
		theirs.Close()
		return nil, nil, fmt.Errorf("control socket: %w", err)
	}
	return c.(*net.UnixConn), theirs, nil
}

// Kill ends the process, waits until it was reaped, and releases what it holds, except
// Conn.
func (c *Child) Kill() {
	_ = c.Proc.Kill() // it may have ended
	c.Ended(reapWait)
	c.Close()
	c.Proc.Release()
}

// Watch watches for the end of the process.
func (c *Child) Watch() (*proc.Watch, error) {
	if c.FD < 0 {
		return proc.Open(c.PID)
	}
	fd := c.FD
	c.FD = -1
	return proc.FromFD(fd)
}

// Send sends one packet with descriptors: JSON, or v itself if it is []byte.
func (c *Child) Send(v any, fds []int) error {
	b, ok := v.([]byte)
	if !ok {
		var err error
		if b, err = json.Marshal(v); err != nil {
			return err
		}
	}
	if len(b) > birth.MaxPacket {
		return fmt.Errorf("a packet has %d bytes, the maximum is %d", len(b), birth.MaxPacket)
	}
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	_, _, err := c.Conn.WriteMsgUnix(b, oob, nil)
	return err
}

// AwaitBuilt waits for the stage. It returns a descriptor of the disk, or a *StepError.
func (c *Child) AwaitBuilt() (int, error) {
	b, fd, err := receive(c.Conn)
	if err != nil {
		return -1, err
	}
	if string(b) == initns.Built && fd >= 0 {
		return fd, nil
	}
	if fd >= 0 {
		unix.Close(fd)
	}
	return -1, Reported(b)
}

// AwaitReady waits for the guest's own report. It returns a *StepError if the guest could
// not start.
func (c *Child) AwaitReady() error {
	b, err := packet(c.Conn)
	if err != nil {
		return err
	}
	return Reported(b)
}

// AwaitSelf waits until a restored guest confirms its new identity with the nonce.
func AwaitSelf(conn *net.UnixConn, nonce string) error {
	for range 16 { // reports from before the save may come first
		b, err := packet(conn)
		if err != nil {
			return err
		}
		var r birth.Report
		if json.Unmarshal(b, &r) != nil || r.Nonce != nonce {
			continue
		}
		return Reported(b)
	}
	return errors.New("the restored guest does not confirm its identity")
}

// packet reads one packet without a descriptor.
func packet(conn *net.UnixConn) ([]byte, error) {
	b, fd, err := receive(conn)
	if fd >= 0 {
		unix.Close(fd)
	}
	return b, err
}

// receive reads one packet and at most one descriptor; without one it is -1. The sender may
// be hostile: the packet is bounded and copied.
func receive(conn *net.UnixConn) ([]byte, int, error) {
	buf := make([]byte, 4096)
	oob := make([]byte, unix.CmsgSpace(4))
	n, oobn, flags, _, err := conn.ReadMsgUnix(buf, oob)
	if errors.Is(err, unix.ECONNRESET) {
		// It ended before it read everything that was sent. The kernel reports that once,
		// before the packets that the process had sent.
		n, oobn, flags, _, err = conn.ReadMsgUnix(buf, oob)
	}
	fd := -1
	if err == nil && oobn > 0 {
		if msgs, perr := unix.ParseSocketControlMessage(oob[:oobn]); perr == nil {
			for _, m := range msgs {
				fds, _ := unix.ParseUnixRights(&m)
				for _, f := range fds {
					unix.CloseOnExec(f)
					if fd < 0 {
						fd = f
					} else {
						unix.Close(f)
					}
				}
			}
		}
	}
	if err == nil && (n == 0 || flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0) {
		err = errors.New("the first process ended or its packet is too long")
	}
	if err != nil {
		if fd >= 0 {
			unix.Close(fd)
		}
		return nil, -1, err
	}
	return buf[:n], fd, nil
}
