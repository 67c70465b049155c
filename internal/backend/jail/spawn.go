package jail

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/backend/jail/cgroup"
	"hortus.dev/internal/backend/jail/forker"
	"hortus.dev/internal/backend/jail/initns"
	"hortus.dev/internal/guest/birth"
)

// Ids inside a sandbox.
const (
	rootUID  = 0
	userUID  = 1000
	guestUID = 65533
)

// namespaces are those of every sandbox.
const namespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWNS |
	unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

// What root inside may hold, and what the guest holds beyond that: it changes
// ids, signals every process and takes capabilities from what it starts.
var (
	rootCaps = []uintptr{unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_FSETID,
		unix.CAP_SETGID, unix.CAP_SETUID, unix.CAP_NET_BIND_SERVICE}
	guestCaps = append([]uintptr{unix.CAP_KILL, unix.CAP_SETPCAP}, rootCaps...)
	// stageCaps are what the stage needs where it is not root inside. The file
	// capabilities are for the overlay, which works with those of its mounter.
	stageCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_SETPCAP,
		unix.CAP_SYS_TIME,     // for the clocks of its namespace
		unix.CAP_SYS_RESOURCE, // for the quotas of its namespace
		unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_FSETID, unix.CAP_MKNOD}
)

func mask(caps []uintptr) uint64 {
	var m uint64
	for _, c := range caps {
		m |= 1 << c
	}
	return m
}

// child is a sandbox's first process while it comes to life. It is the forker's child.
type child struct {
	*forker.Child
	proc *os.Process
	conn *net.UnixConn // the control socket
}

// kill ends the process, waits until it was collected, and forgets it.
func (c *child) kill() {
	_ = c.proc.Kill() // it may have ended
	c.Ended(removeWait)
	c.Close()
	c.proc.Release()
}

// watch begins to watch for the process's end.
func (c *child) watch() (*ending, error) {
	if c.FD < 0 {
		return watchEnd(c.PID)
	}
	fd := c.FD
	c.FD = -1
	return newEnding(fd)
}

// spawn has the stage forked into new namespaces and the group. le is nil where the
// backend cannot map many ids.
func (b *Backend) spawn(g *cgroup.Group, le *lease) (_ *child, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "control"), os.NewFile(uintptr(pair[1]), "control")
	defer ours.Close()
	defer theirs.Close()
	c, err := net.FileConn(ours)
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	// Saying how many processors there are spares the runtime a look at the host's
	// control groups. Two, because the runtime's watcher comes late (guestSlack): a
	// thread that waits in the kernel keeps one of them for as long. The guest's own
	// environment is empty.
	processors := "2"
	if b.cfg.Kernel != nil {
		processors = "1" // of a keeper, which hands things on now and then
	}
	o := forker.Order{
		Args: []string{initns.Argv0}, Env: []string{"GOMAXPROCS=" + processors}, Namespaces: namespaces,
		Clocks: b.clocks && b.root, // else the stage makes its own, in its user namespace
		// An empty session keyring, on every thread that it ever has.
		Keyring: b.root, Slack: guestSlack,
	}
	if le != nil {
		ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: le.base, Size: rangeSize}}
		o.UIDs, o.GIDs, o.Root = ids, ids, true
		o.Owner = le.base
	} else {
		id := userUID
		if b.cfg.Kernel != nil {
			id = rootUID // the ids of the guest's users are its kernel's own
		}
		o.UIDs = []syscall.SysProcIDMap{{ContainerID: id, HostID: os.Geteuid(), Size: 1}}
		o.GIDs = []syscall.SysProcIDMap{{ContainerID: id, HostID: os.Getegid(), Size: 1}}
		o.Ambient = stageCaps
	}
	if o.Seat, err = g.Seat(); err != nil {
		return nil, err
	}
	defer o.Seat.Close()
	born, err := b.forker.Fork(o, theirs)
	if err != nil {
		return nil, err
	}
	proc, err := os.FindProcess(born.PID)
	if err != nil {
		born.Close() // the end of its control socket ends it
		return nil, err
	}
	return &child{Child: born, proc: proc, conn: c.(*net.UnixConn)}, nil
}

// send sends one packet with descriptors.
func (c *child) send(v any, fds []int) error {
	b, ok := v.([]byte)
	if !ok {
		var err error
		if b, err = json.Marshal(v); err != nil {
			return err
		}
	}
	if len(b) > birth.MaxPacket {
		return fmt.Errorf("a packet of %d bytes is longer than %d", len(b), birth.MaxPacket)
	}
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	_, _, err := c.conn.WriteMsgUnix(b, oob, nil)
	return err
}

// receive reads one packet and at most one descriptor, or -1. What comes may be
// from hostile hands: it is bounded and copied.
func (c *child) receive() ([]byte, int, error) {
	buf := make([]byte, 4096)
	oob := make([]byte, unix.CmsgSpace(4))
	n, oobn, flags, _, err := c.conn.ReadMsgUnix(buf, oob)
	if errors.Is(err, unix.ECONNRESET) {
		// It ended without reading everything that was sent to it, which the kernel
		// says once, and before what it had said itself.
		n, oobn, flags, _, err = c.conn.ReadMsgUnix(buf, oob)
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
		err = fmt.Errorf("the first process ended or answered too long")
	}
	if err != nil {
		if fd >= 0 {
			unix.Close(fd)
		}
		return nil, -1, err
	}
	return buf[:n], fd, nil
}

// awaitBuilt waits for the stage: the descriptor of the disk, or the step that
// failed.
func (c *child) awaitBuilt() (int, error) {
	b, fd, err := c.receive()
	if err != nil {
		return -1, err
	}
	if string(b) == initns.Built && fd >= 0 {
		return fd, nil
	}
	if fd >= 0 {
		unix.Close(fd)
	}
	return -1, reported(b)
}

// awaitReady waits for the guest's own report.
func (c *child) awaitReady() error {
	b, fd, err := c.receive()
	if fd >= 0 {
		unix.Close(fd)
	}
	if err != nil {
		return err
	}
	return reported(b)
}

// stageError is a step of a birth that failed.
type stageError struct {
	Stage string
	Text  string
	Errno syscall.Errno
}

func (e *stageError) Error() string { return e.Stage + ": " + e.Text }

func (e *stageError) Unwrap() error {
	if e.Errno == 0 {
		return nil
	}
	return e.Errno
}

// reported reads a birth.Report; nil when it says ready.
func reported(b []byte) error {
	var r birth.Report
	if err := json.Unmarshal(b, &r); err != nil {
		return fmt.Errorf("the guest's report is malformed")
	}
	if r.Ready {
		return nil
	}
	const most = 300
	return &stageError{Stage: clip(r.Stage, most), Text: clip(r.Error, most), Errno: syscall.Errno(r.Errno)}
}

// clip bounds and cleans a text that is shown to people.
func clip(s string, most int) string {
	if len(s) > most {
		s = s[:most]
	}
	b := []byte(s)
	for i, c := range b {
		if c < ' ' || c > '~' {
			b[i] = '?'
		}
	}
	return string(b)
}
