package forker

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/guest/birth"
)

// forkTimeout is the maximum duration of a fork, which takes one or two milliseconds.
const forkTimeout = 30 * time.Second

// Config configures a Forker.
type Config struct {
	// Program is the open program of the stage. It is run with argv[0] Argv0 and the
	// argument Mode.
	Program *os.File
	Argv0   string
	// Null is the open null device.
	Null *os.File
	// Shared limits all user namespaces that it creates, together, to half of the inotify
	// quotas of an ordinary user.
	Shared bool
}

// Forker is the daemon's end of a forker. Its methods may be called by several
// goroutines.
type Forker struct {
	cfg Config

	mu     sync.Mutex
	cur    *process // nil while there is none
	closed bool
}

// process is one forker process.
type process struct {
	proc    *os.Process
	sock    int
	users   int  // orders in progress; the socket stays open for them
	retired bool // no new order may use it
}

// New returns a Forker, whose process is started with the first order.
func New(cfg Config) *Forker { return &Forker{cfg: cfg} }

// start starts a process.
func (f *Forker) start() (*process, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("the forker's socket: %w", err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "forker")
	defer theirs.Close()
	left := unix.NsecToTimeval(int64(forkTimeout))
	if err := unix.SetsockoptTimeval(pair[0], unix.SOL_SOCKET, unix.SO_SNDTIMEO, &left); err != nil {
		unix.Close(pair[0])
		return nil, fmt.Errorf("the forker's socket: %w", err)
	}
	args, attr := []string{f.cfg.Argv0, Mode}, &syscall.SysProcAttr{Setsid: true}
	if f.cfg.Shared {
		args, attr = append(args, sharedArg), sharedAttr()
	}
	files := []*os.File{f.cfg.Null, f.cfg.Null, f.cfg.Null, theirs}
	program, err := birth.Program(f.cfg.Program, files...)
	var proc *os.Process
	if err == nil {
		proc, err = os.StartProcess(program.Name(), args, &os.ProcAttr{Dir: "/", Env: []string{"GOMAXPROCS=2"}, Sys: attr, Files: files})
		program.Close()
	}
	if err != nil {
		unix.Close(pair[0])
		return nil, fmt.Errorf("start the forker: %w", err)
	}
	return &process{proc: proc, sock: pair[0]}, nil
}

// acquire returns a running forker, until release.
func (f *Forker) acquire() (*process, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, os.ErrClosed
	}
	if f.cur == nil {
		r, err := f.start()
		if err != nil {
			return nil, err
		}
		f.cur = r
	}
	f.cur.users++
	return f.cur, nil
}

// release ends an order; broken says that the forker cannot be used any more.
func (f *Forker) release(r *process, broken bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r.users--
	if broken {
		f.retire(r)
	}
	f.stop(r)
}

// retire lets no new order use a forker. The caller holds the lock.
func (f *Forker) retire(r *process) {
	r.retired = true
	if f.cur == r {
		f.cur = nil
	}
}

// stop ends a retired process after its last order. The caller holds the lock.
func (f *Forker) stop(r *process) {
	if !r.retired || r.users > 0 || r.proc == nil {
		return
	}
	unix.Close(r.sock)
	_ = r.proc.Kill() // it may have ended
	_, _ = r.proc.Wait()
	r.proc = nil
}

// Close ends the forker. The processes that it forked keep running.
func (f *Forker) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	if r := f.cur; r != nil {
		f.retire(r)
		f.stop(r)
	}
}

// Fork forks a process with a socket as its first descriptor after the standard ones. A
// [syscall.Errno] in the error's chain comes from the kernel.
func (f *Forker) Fork(o Order, control *os.File) (*Child, error) {
	b, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	if len(b) > maxPacket {
		return nil, fmt.Errorf("the order has %d bytes, the maximum is %d", len(b), maxPacket)
	}
	c, err := f.order(b, control, o.Seat.FD)
	if errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) {
		c, err = f.order(b, control, o.Seat.FD) // it had ended before the order
	}
	return c, err
}

// order sends one order.
func (f *Forker) order(b []byte, control *os.File, group int) (*Child, error) {
	r, err := f.acquire()
	if err != nil {
		return nil, err
	}
	c, err := ask(r.sock, b, control, group)
	refused := (*failure)(nil)
	f.release(r, err != nil && !errors.As(err, &refused))
	if err != nil && refused == nil {
		return nil, fmt.Errorf("the forker: %w", err)
	}
	return c, err
}

// ask sends an order and reads the answer, on a socket of this order, over which the exit
// status comes later.
func ask(sock int, order []byte, control *os.File, group int) (_ *Child, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	c := &Child{status: pair[0], FD: -1}
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	fds := []int{fdControl: int(control.Fd()), fdAnswer: pair[1]}
	if group >= 0 {
		fds = append(fds, group)
	}
	for {
		if err = unix.Sendmsg(sock, order, unix.UnixRights(fds...), nil, unix.MSG_NOSIGNAL); err != unix.EINTR {
			break
		}
	}
	unix.Close(pair[1])
	if err != nil {
		return nil, os.NewSyscallError("send an order", err)
	}
	var a answer
	if c.FD, err = c.receive(&a, forkTimeout); err != nil {
		return nil, fmt.Errorf("the answer to an order: %w", err)
	}
	if a.PID <= 0 {
		return nil, &failure{a.Text, a.Errno}
	}
	c.PID = a.PID
	return c, nil
}
