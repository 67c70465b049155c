package keeper

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/guest/birth"
)

// callTimeout bounds one call that starts the kernel; a save has its own bound, and
// the daemon ends what takes longer than a start may.
const callTimeout = time.Minute

// Config is what the stage hands over, all of it open in this process.
type Config struct {
	Plan Plan
	// FD gives a descriptor of the Spec's packet.
	FD func(i int) int
	// Control is the daemon's socket, Listen takes streams, Requests takes Requests.
	Control, Listen, Requests int
	// Confine gives up privileges for good, on every thread.
	Confine func() error
}

// keeper is a keeper at work.
type keeper struct {
	cfg     Config
	control *net.UnixConn // the daemon, until "go"
	guest   *net.UnixConn // the guest's one socket
	theirs  int           // the guest's end, until the kernel has it
	sentry  int           // the kernel's process
	reaper  *reaper

	// mu is held while a packet goes to the guest: a save holds it from the guest's
	// silence to its going on, so that no stream comes in between.
	mu     sync.Mutex
	silent chan birth.Report // what the guest answered to "quiet"
}

// step is a failure with the name of what was being done.
type step struct {
	name string
	err  error
}

func (s *step) Error() string { return s.name + ": " + s.err.Error() }
func (s *step) Unwrap() error { return s.err }

// Run is a keeper's life. It gives the process's exit code.
func Run(cfg Config) int {
	k := &keeper{cfg: cfg, silent: make(chan birth.Report, 1), reaper: newReaper()}
	err := k.start()
	if err != nil {
		k.report(err)
		return ExitFailed
	}
	// The daemon's end before "go" means that nobody has a record of this sandbox.
	go k.fromDaemon()
	go k.fromGuest()
	go k.streams()
	go k.requests()
	// What the start took is not needed again, and a keeper waits for a long time.
	debug.SetGCPercent(20)
	debug.FreeOSMemory()
	return k.reaper.await(k.sentry)
}

// start brings the kernel, and in it the guest, to life.
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
		// The guest finds it on its socket when it starts. One that comes from a saved
		// state had its own long ago.
		if err := k.configure(); err != nil {
			return &step{"pass the configuration on", err}
		}
	}
	if k.cfg.Plan.Held {
		if err := k.hold(); err != nil {
			return &step{"wait for the image", err}
		}
	}
	for _, c := range k.cfg.Plan.Start {
		fds := make([]int, len(c.FDs))
		for i, n := range c.FDs {
			fds[i] = k.cfg.FD(n)
		}
		err := call(k.cfg.Plan.Control, c, fds, callTimeout)
		for _, fd := range fds { // the kernel has them now
			unix.Close(fd)
		}
		if err != nil {
			return &step{stepCall + path.Ext(c.Method)[1:], err}
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

// configure passes the daemon's first packet on.
func (k *keeper) configure() error {
	buf := make([]byte, birth.MaxPacket)
	n, err := k.control.Read(buf)
	if err != nil {
		return err
	}
	_, err = k.guest.Write(buf[:n])
	return err
}

// hold waits until the daemon says that what the calls need is there.
func (k *keeper) hold() error {
	buf := make([]byte, len(GoOn)+1)
	n, err := k.control.Read(buf)
	if err == nil && string(buf[:n]) != GoOn {
		err = errors.New("the daemon did not say go on")
	}
	return err
}

// fromDaemon passes the daemon's packets on until it closes its end, which it does
// after "go". Before that it means that the daemon is gone.
func (k *keeper) fromDaemon() {
	buf := make([]byte, birth.MaxPacket)
	said := false
	for {
		n, err := k.control.Read(buf)
		if err != nil || n == 0 {
			if !said {
				os.Exit(ExitFailed) // init ends, and everything with it
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

// maxReport bounds what a guest says, in bytes.
const maxReport = 4 << 10

// fromGuest passes a guest's packets on, but for what a save waits for.
func (k *keeper) fromGuest() {
	buf := make([]byte, maxReport+1)
	for {
		n, err := k.guest.Read(buf)
		if err != nil || n == 0 {
			return // its kernel ends now, or is of no use any more
		}
		if n > maxReport {
			continue
		}
		var r birth.Report
		if json.Unmarshal(buf[:n], &r) == nil && r.Quiet {
			select {
			case k.silent <- r:
			default: // nobody asked so often
			}
			continue
		}
		// The daemon may have closed its end, and be busy.
		k.control.SetWriteDeadline(time.Now().Add(10 * time.Second))
		k.control.Write(buf[:n])
	}
}

// tell sends the daemon a report of the keeper's own.
func (k *keeper) tell(r birth.Report) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = k.control.Write(b)
	return err
}

// report says why nothing started.
func (k *keeper) report(err error) {
	r := birth.Report{Stage: "init", Error: clip(err.Error())}
	var s *step
	if errors.As(err, &s) {
		r.Stage, r.Error = s.name, clip(s.err.Error())
	}
	var errno unix.Errno
	if errors.As(err, &errno) {
		r.Errno = int(errno)
	}
	if k.control != nil {
		k.tell(r)
	}
}

// streamWait bounds how long a guest may leave a stream waiting.
const streamWait = 10 * time.Second

// streams hands every stream that the daemon opens to the guest: the accepted socket
// itself goes over, and this process lets go of it.
func (k *keeper) streams() {
	l, err := listener(k.cfg.Listen)
	if err != nil {
		fmt.Fprintln(os.Stderr, "hortus-keeper:", err)
		os.Exit(ExitFailed)
	}
	for {
		c, err := l.AcceptUnix()
		if err != nil {
			time.Sleep(10 * time.Millisecond) // out of descriptors: others will end
			continue
		}
		k.hand(c)
		c.Close()
	}
}

func (k *keeper) hand(c *net.UnixConn) {
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.guest.SetWriteDeadline(time.Now().Add(streamWait))
	raw.Control(func(fd uintptr) {
		// What cannot be sent is closed: the daemon sees the end of its stream.
		k.guest.WriteMsgUnix([]byte(birth.StreamPacket), unix.UnixRights(int(fd)), nil)
	})
	k.guest.SetWriteDeadline(time.Time{})
}

// conn takes over a socket.
func conn(fd int) (*net.UnixConn, error) {
	f := os.NewFile(uintptr(fd), "socket")
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		c.Close()
		return nil, errors.New("it is no unix socket")
	}
	return u, nil
}

// listener takes over a listening socket, whose name is the daemon's.
func listener(fd int) (*net.UnixListener, error) {
	f := os.NewFile(uintptr(fd), "listener")
	defer f.Close()
	l, err := net.FileListener(f)
	if err != nil {
		return nil, err
	}
	u, ok := l.(*net.UnixListener)
	if !ok {
		l.Close()
		return nil, errors.New("it is no unix socket")
	}
	u.SetUnlinkOnClose(false)
	return u, nil
}

// write makes a file of the plan's, and the directories above it.
func write(f File) error {
	if err := os.MkdirAll(path.Dir(f.Path), 0o700); err != nil {
		return err
	}
	return os.WriteFile(f.Path, []byte(f.Data), 0o600)
}
