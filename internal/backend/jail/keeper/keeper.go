package keeper

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/guest/birth"
)

// callTimeout is the maximum duration of one call that starts the kernel. The daemon ends a
// keeper whose start takes too long.
const callTimeout = time.Minute

// Config is what the stage passes to the keeper. Descriptors are open in this process.
type Config struct {
	Plan Plan
	// FD returns a descriptor of the Spec's packet.
	FD func(i int) int
	// Control is the daemon's socket. Listen accepts streams, Requests accepts Requests.
	Control, Listen, Requests int
	// Confine drops privileges permanently, on every thread.
	Confine func() error
}

// keeper is a running keeper.
type keeper struct {
	cfg     Config
	control *net.UnixConn // the daemon, until "go"
	guest   *net.UnixConn // the guest's one socket
	theirs  int           // the guest's end, until the kernel has it
	sentry  int           // the kernel's process
	reaper  *reaper

	// mu is held while a packet is sent to the guest. A save holds it from quiesce to
	// resume, so that no stream is opened meanwhile.
	mu       sync.Mutex
	quiesced chan birth.Report // the guest's answer to a birth.QuietPacket
}

// step is an error with the name of the step that failed.
type step struct {
	name string
	err  error
}

func (s *step) Error() string { return s.name + ": " + s.err.Error() }
func (s *step) Unwrap() error { return s.err }

// Run runs a keeper and returns its exit code.
func Run(cfg Config) int {
	k := &keeper{cfg: cfg, quiesced: make(chan birth.Report, 1), reaper: newReaper()}
	err := k.start()
	if err != nil {
		k.report(err)
		return ExitFailed
	}
	go k.forwardToGuest()
	go k.forwardToDaemon()
	go serve(k.cfg.Listen, k.passStream)
	go serve(k.cfg.Requests, k.answer)
	// The memory of the start is not needed again, and a keeper lives long.
	debug.SetGCPercent(20)
	debug.FreeOSMemory()
	return k.reaper.await(k.sentry)
}

// start starts the kernel, and the guest on it.
func (k *keeper) start() error {
	var err error
	if k.control, err = conn(k.cfg.Control); err != nil {
		return &step{"the control socket", err}
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return &step{"make the guest's socket", err}
	}
	k.theirs = pair[1]
	if k.guest, err = conn(pair[0]); err != nil {
		return &step{"make the guest's socket", err}
	}
	for _, f := range k.cfg.Plan.Files {
		if err := write(f); err != nil {
			return &step{"write " + f.Path, err}
		}
	}
	if err := k.create(); err != nil {
		return &step{"create the kernel", err}
	}
	if !k.cfg.Plan.Restored {
		// The guest reads it when it starts. A restored guest has its configuration.
		if err := k.configure(); err != nil {
			return &step{"forward the configuration", err}
		}
	}
	var restore Call
	var image []int
	if k.cfg.Plan.Restored {
		if restore, image, err = k.awaitImage(); err != nil {
			return &step{"wait for the image", err}
		}
	}
	for _, c := range k.cfg.Plan.Start {
		fds := make([]int, len(c.FDs))
		for i, n := range c.FDs {
			fds[i] = k.cfg.FD(n)
		}
		if err := k.callStart(c, fds); err != nil {
			return err
		}
	}
	if k.cfg.Plan.Restored {
		if err := k.callStart(restore, image); err != nil {
			return err
		}
	}
	if k.sentry, err = child(k.cfg.Plan.Kernel); err != nil {
		return &step{"find the kernel", err}
	}
	if err := k.cfg.Confine(); err != nil {
		return err
	}
	if k.cfg.Plan.Restored {
		return k.tell(birth.Report{Ready: true})
	}
	return nil
}

// callStart makes a call of the start, and closes its descriptors.
func (k *keeper) callStart(c Call, fds []int) (err error) {
	if c.File != nil {
		var fd int
		if fd, err = memoryFile(c.File); err == nil {
			fds = append(fds, fd)
		}
	}
	if err == nil {
		err = call(k.cfg.Plan.Control, c, fds, callTimeout)
	}
	for _, fd := range fds { // the kernel has its own now
		unix.Close(fd)
	}
	if err != nil {
		return &step{stepCall + path.Ext(c.Method)[1:], err}
	}
	return nil
}

// memoryFile makes a file in memory, which is read from its beginning.
func memoryFile(content []byte) (int, error) {
	fd, err := unix.MemfdCreate("hortus-call", unix.MFD_CLOEXEC)
	if err != nil {
		return -1, err
	}
	if _, err = unix.Pwrite(fd, content, 0); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// configure forwards the daemon's first packet.
func (k *keeper) configure() error {
	buf := make([]byte, birth.MaxPacket)
	n, err := k.control.Read(buf)
	if err != nil {
		return err
	}
	_, err = k.guest.Write(buf[:n])
	return err
}

// awaitImage waits until the files of the image are written, and returns the call that reads
// them with their descriptors.
func (k *keeper) awaitImage() (c Call, fds []int, err error) {
	buf, oob := make([]byte, birth.MaxPacket), make([]byte, unix.CmsgSpace(4*maxFiles))
	n, oobn, flags, _, err := k.control.ReadMsgUnix(buf, oob)
	if err != nil {
		return c, nil, err
	}
	fds = Received(oob[:oobn])
	err = json.Unmarshal(buf[:n], &c)
	if err == nil && (c.Method == "" || c.File != nil || flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0) {
		err = errors.New("the daemon sent another packet")
	}
	if err != nil {
		CloseAll(fds)
		return c, nil, err
	}
	return c, fds, nil
}

// Received returns the descriptors of a packet, which are closed on exec.
func Received(oob []byte) (fds []int) {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil
	}
	for _, m := range msgs {
		got, _ := unix.ParseUnixRights(&m)
		fds = append(fds, got...)
	}
	for _, fd := range fds {
		unix.CloseOnExec(fd)
	}
	return fds
}

// CloseAll closes descriptors.
func CloseAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}

// forwardToGuest forwards the daemon's packets until the daemon closes its end, which it does
// after "go". Before that the end means that the daemon has ended, and no record of this
// sandbox exists.
func (k *keeper) forwardToGuest() {
	buf := make([]byte, birth.MaxPacket)
	said := false
	for {
		n, err := k.control.Read(buf)
		if err != nil || n == 0 {
			if !said {
				os.Exit(ExitFailed) // the init of the namespace ends, and every process with it
			}
			return
		}
		k.mu.Lock()
		_, err = k.guest.Write(buf[:n])
		k.mu.Unlock()
		if err != nil {
			return
		}
		said = true
	}
}

// maxReport is the maximum size of a guest's packet, in bytes.
const maxReport = 4 << 10

// forwardToDaemon forwards a guest's packets, except the report that a save waits for.
func (k *keeper) forwardToDaemon() {
	buf := make([]byte, maxReport+1)
	for {
		n, err := k.guest.Read(buf)
		if err != nil || n == 0 {
			return // its kernel is ending, or cannot be used any more
		}
		if n > maxReport {
			continue
		}
		var r birth.Report
		if json.Unmarshal(buf[:n], &r) == nil && r.Quiet {
			select {
			case k.quiesced <- r:
			default: // the guest was not asked that often
			}
			continue
		}
		// The daemon may have closed its end, or be busy.
		k.control.SetWriteDeadline(time.Now().Add(10 * time.Second))
		k.control.Write(buf[:n])
	}
}

// tell sends the daemon a report of the keeper itself.
func (k *keeper) tell(r birth.Report) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = k.control.Write(b)
	return err
}

// report reports why the start failed.
func (k *keeper) report(err error) {
	r := birth.Report{Stage: "init", Error: sanitize(err.Error())}
	var s *step
	if errors.As(err, &s) {
		r.Stage, r.Error = s.name, sanitize(s.err.Error())
	}
	var errno unix.Errno
	if errors.As(err, &errno) {
		r.Errno = int(errno)
	}
	if k.control != nil {
		k.tell(r)
	}
}

// streamTimeout is the maximum wait for a guest to take a stream.
const streamTimeout = 10 * time.Second

// serve handles the connections of a listening socket, one at a time.
func serve(fd int, handle func(*net.UnixConn)) {
	l, err := listener(fd)
	if err != nil {
		fmt.Fprintln(os.Stderr, "hortus-keeper:", err)
		os.Exit(ExitFailed)
	}
	for {
		c, err := l.AcceptUnix()
		if err != nil {
			time.Sleep(10 * time.Millisecond) // out of descriptors until other streams end
			continue
		}
		handle(c)
		c.Close()
	}
}

// passStream passes a stream that the daemon opened to the guest: it sends the socket itself.
func (k *keeper) passStream(c *net.UnixConn) {
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.guest.SetWriteDeadline(time.Now().Add(streamTimeout))
	raw.Control(func(fd uintptr) {
		// If it cannot be sent it is closed, which the daemon sees.
		k.guest.WriteMsgUnix([]byte(birth.StreamPacket), unix.UnixRights(int(fd)), nil)
	})
	k.guest.SetWriteDeadline(time.Time{})
}

// conn makes a connection of a descriptor, which it closes.
func conn(fd int) (*net.UnixConn, error) {
	f := os.NewFile(uintptr(fd), "socket")
	defer f.Close()
	return unixSocket[*net.UnixConn](net.FileConn(f))
}

// unixSocket checks the type of a socket, and closes one of another type.
func unixSocket[S io.Closer, C io.Closer](c C, err error) (S, error) {
	var none S
	if err != nil {
		return none, err
	}
	u, ok := any(c).(S)
	if !ok {
		c.Close()
		return none, errors.New("it is not a unix socket")
	}
	return u, nil
}

// listener makes a listener of a descriptor, which it closes. The daemon removes the socket.
func listener(fd int) (*net.UnixListener, error) {
	f := os.NewFile(uintptr(fd), "listener")
	defer f.Close()
	u, err := unixSocket[*net.UnixListener](net.FileListener(f))
	if err == nil {
		u.SetUnlinkOnClose(false)
	}
	return u, err
}

// write writes a file of the plan, and makes the directories above it.
func write(f File) error {
	if err := os.MkdirAll(path.Dir(f.Path), 0o700); err != nil {
		return err
	}
	return os.WriteFile(f.Path, []byte(f.Data), 0o600)
}
