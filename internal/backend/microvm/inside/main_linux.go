package inside

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/backend/jail/network"
	"hortus.dev/internal/backend/serial"
	"hortus.dev/internal/guest/birth"
)

// Main runs the first process, or, started by it, the stage before the guest. It does not return in a machine.
func Main() int {
	if os.Getpid() == 1 && len(os.Args) == 3 && os.Args[1] == argStage {
		fmt.Fprintln(os.Stderr, "hortus-vm:", becomeGuest(os.Args[2]))
		return 1
	}
	err := run()
	fmt.Fprintln(os.Stderr, "hortus-vm:", err)
	unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
	return 1
}

// step is an error of one named step.
type step struct {
	name string
	err  error
}

func (s *step) Error() string { return s.name + ": " + s.err.Error() }
func (s *step) Unwrap() error { return s.err }

func run() error {
	for _, m := range []struct{ kind, dir string }{{"devtmpfs", "/dev"}, {"proc", "/proc"}, {"sysfs", "/sys"}} {
		if err := unix.Mount(m.kind, m.dir, m.kind, unix.MS_NOSUID, ""); err != nil && err != unix.EBUSY {
			return &step{"mount " + m.dir, err}
		}
	}
	if err := loadModules(); err != nil {
		return err
	}
	f, err := openPort()
	if err != nil {
		return &step{"open the serial port", err}
	}
	orders := make(chan order, 64)
	m := serial.Serve(f, serial.Config{
		Accept: func(c *net.UnixConn) { orders <- order{stream: c} }, Packet: func(p []byte) { orders <- order{packet: p} }, Hello: greet,
	})
	var first order
	select {
	case first = <-orders:
	case <-m.Ended():
		return errors.New("the host has ended before it sent a plan")
	}
	var plan Plan
	if err := json.Unmarshal(first.packet, &plan); err != nil {
		return &step{"read the plan", err}
	}
	g, err := start(plan)
	if err != nil {
		send(m, Message{Report: report(err)})
		return err
	}
	go g.forward(orders, func() { f.claimed.Store(true) })
	go g.forwardReports(m)
	ended := make(chan string, 1)
	go func() { ended <- g.wait() }()
	select {
	case how := <-ended:
		send(m, Message{Ended: how})
		time.Sleep(lastWord) // the packet is in the device's queue, which ends with the machine
		return errors.New("the guest has ended")
	case <-m.Ended():
		return errors.New("the host has ended before the guest was claimed")
	}
}

// lastWord is how long the machine lives after its guest.
const lastWord = 50 * time.Millisecond

func start(plan Plan) (*guest, error) {
	if err := mountRoot(plan); err != nil {
		return nil, err
	}
	if err := network.Up(); err != nil {
		return nil, &step{"bring lo up", err}
	}
	if err := network.Capture(); err != nil {
		return nil, &step{"capture outgoing connections", err}
	}
	return startGuest(plan.Config)
}

// report says what failed.
func report(err error) *birth.Report {
	r := &birth.Report{Stage: "init", Error: fmt.Sprintf("%.1000s", err)}
	var s *step
	if errors.As(err, &s) {
		r.Stage, r.Error = s.name, fmt.Sprintf("%.1000s", s.err)
	}
	var errno unix.Errno
	if errors.As(err, &errno) {
		r.Errno = int(errno)
	}
	return r
}

// send sends a message to the host. A host that is not there misses it.
func send(m *serial.Mux, msg Message) {
	b, err := json.Marshal(msg)
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	m.Send(ctx, b)
}

// greet takes over the time and the randomness of a host that connected: the machine may have been saved long ago, and
// other machines may have the same state.
func greet(h serial.Hello) {
	if d := time.Since(h.Now); d > time.Second || d < -time.Second {
		ts := unix.NsecToTimespec(h.Now.UnixNano())
		if err := unix.ClockSettime(unix.CLOCK_REALTIME, &ts); err != nil {
			fmt.Fprintln(os.Stderr, "hortus-vm: set the clock:", err)
		}
	}
	if err := addEntropy(h.Seed[:]); err != nil {
		fmt.Fprintln(os.Stderr, "hortus-vm: add randomness:", err)
	}
}

// loadModules loads the modules of the initial file system.
func loadModules() error {
	all, err := filepath.Glob(ModuleDir + "/*.ko") // sorted
	if err != nil {
		return err
	}
	for _, path := range all {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		err = unix.FinitModule(int(f.Fd()), "", 0)
		f.Close()
		// A module for a processor with another feature is refused with ENODEV.
		if err != nil && err != unix.EEXIST && err != unix.ENODEV {
			return &step{"load the module " + filepath.Base(path), err}
		}
	}
	return os.RemoveAll(ModuleDir) // it is memory
}

// portWait is the maximum time until the port appears.
const portWait = 30 * time.Second

// openPort opens the serial port of the link.
func openPort() (*port, error) {
	for end := time.Now().Add(portWait); ; time.Sleep(time.Millisecond) {
		names, err := filepath.Glob("/sys/class/virtio-ports/*/name")
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if b, err := os.ReadFile(name); err != nil || string(b) != PortName+"\n" {
				continue
			}
			fd, err := unix.Open("/dev/"+filepath.Base(filepath.Dir(name)), unix.O_RDWR|unix.O_CLOEXEC, 0)
			if err == nil {
				return &port{fd: fd}, nil
			}
			if err != unix.ENOENT {
				return nil, err
			}
		}
		if time.Now().After(end) {
			return nil, errors.New("the machine has no port " + PortName)
		}
	}
}

// port is a serial port. Its reads and writes wait in the kernel.
type port struct {
	fd int
	// met is true once a host has sent something, claimed once the guest is claimed: before that it ends with its host.
	met     bool
	claimed atomic.Bool
}

// noHost is how long a read waits if no host is connected.
const noHost = 20 * time.Millisecond

func (p *port) Read(b []byte) (int, error) {
	for {
		n, err := unix.Read(p.fd, b)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return 0, err
		case n > 0:
			p.met = true
			return n, nil
		case p.met && !p.claimed.Load():
			return 0, io.EOF
		default:
			time.Sleep(noHost)
		}
	}
}

func (p *port) Write(b []byte) (n int, err error) {
	for n < len(b) {
		m, err := unix.Write(p.fd, b[n:])
		if err != nil && err != unix.EINTR && err != unix.EAGAIN {
			return n, err
		}
		n += max(m, 0)
	}
	return n, nil
}

// Close does nothing: the port is open as long as the machine lives.
func (p *port) Close() error { return nil }
