package guest

import (
	"errors"
	"math"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/api/envd"
)

// start serves Start: it starts a process and is its pump.
func (s *Server) start(c *conn, req *http.Request) error {
	var in envd.StartRequest
	codec, ok, err := c.streamRequest(req, &in)
	if !ok {
		return err
	}
	opt, err := startOptionsOf(c, req)
	if err != nil {
		return c.failStream(codec, err)
	}
	id, err := s.identityOf(req)
	if err != nil {
		return c.failStream(codec, err)
	}
	p, fds, err := s.launch(id, &in, opt)
	if err != nil {
		return c.failStream(codec, err)
	}
	c.out.begin(c, codec)
	c.out.message(&envd.ProcessResponse{Event: &envd.ProcessEvent{Start: &envd.StartEvent{PID: uint32(p.pid)}}})
	pm := &pump{s: s, p: p, fds: fds, c: c, out: &c.out, keepalive: opt.keepalive, keep: opt.keep && c.hortus, buf: getBuf()}
	pm.pending = time.Now()
	err = pm.run()
	if s.cfg.Waits && req.Header.Get(envd.HeaderWarmUp) != "" {
		err = errors.Join(err, s.rest())
	}
	return err
}

// rest follows a warm-up: the first command of the sandbox's user is not to wait for
// what can be done before.
func (s *Server) rest() error {
	// What the warm-up took is memory that the kernel has given already.
	runtime.GC()
	return s.spawner.prepareThreads()
}

// startOptions is what the headers of a Start or Connect ask for.
type startOptions struct {
	execID    string
	timeout   time.Duration
	limit     int64
	offset    int64 // -1: live only
	keepalive time.Duration
	due       time.Time // when timeout is up, for a stream; zero for never
	keep      bool      // the stream is that of the command's record
}

// over tells of the end of a stream's time; never, where there is no bound.
func (o startOptions) over() (over <-chan time.Time, stop func()) {
	if o.due.IsZero() {
		return nil, func() {}
	}
	t := time.NewTimer(time.Until(o.due))
	return t.C, func() { t.Stop() }
}

func (o startOptions) late() bool { return !o.due.IsZero() && !time.Now().Before(o.due) }

var errFollowed = api.Errorf(api.KindTimeout, "the time of this stream is over")

const maxExecID = 128

// maxFollow is the longest that a stream can be asked to last; one of more lasts.
const maxFollow = 365 * 24 * time.Hour

func startOptionsOf(c *conn, req *http.Request) (startOptions, error) {
	o := startOptions{execID: req.Header.Get(envd.HeaderExecID), offset: -1, keep: req.Header.Get(envd.HeaderKeep) != ""}
	if len(o.execID) > maxExecID {
		return o, api.Errorf(api.KindInvalid, "%s: longer than %d bytes", envd.HeaderExecID, maxExecID)
	}
	ms, err := intHeader(req, "Connect-Timeout-Ms", 0)
	if err != nil {
		return o, err
	}
	o.timeout = time.Duration(min(ms, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
	if o.timeout > 0 && o.timeout < maxFollow {
		o.due = time.Now().Add(o.timeout)
	}
	seconds, err := intHeader(req, "Keepalive-Ping-Interval", 0)
	if err != nil {
		return o, err
	}
	o.keepalive = time.Duration(min(seconds, 1<<30)) * time.Second
	if o.limit, err = intHeader(req, envd.HeaderOutputLimit, 0); err != nil {
		return o, err
	}
	o.offset, err = intHeader(req, envd.HeaderOffset, -1)
	return o, err
}

func intHeader(req *http.Request, name string, absent int64) (int64, error) {
	v := req.Header.Get(name)
	if v == "" {
		return absent, nil
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < 0 {
		return 0, api.Errorf(api.KindInvalid, "header %s: %q is no number from 0 on", name, v)
	}
	return n, nil
}

// launch starts the process of a request. It gives the descriptors that its
// output comes from: two pipes, or a terminal and -1.
func (s *Server) launch(id *identity, in *envd.StartRequest, opt startOptions) (*process, [2]int, error) {
	none := [2]int{-1, -1}
	if in.Process == nil {
		return nil, none, api.Errorf(api.KindInvalid, "the request names no command")
	}
	cmd, err := s.prepare(id, in.Process)
	if err != nil {
		return nil, none, err
	}
	if err := s.table.checkRoom(opt.execID); err != nil {
		return nil, none, err
	}
	p := &process{execID: opt.execID, tag: in.Tag, config: in.Process, limit: opt.limit, ptyFD: -1, isPTY: in.PTY != nil}
	p.space.L = &p.mu
	p.ring.limit = s.cfg.OutputBuffer
	ends, err := s.openEnds(p, in, id)
	if err != nil {
		return nil, none, api.Errorf(api.KindExhausted, "start %s: %w", cmd.argv[0], err)
	}
	cmd.files, cmd.pty = ends.child[:], p.isPTY
	err = s.reaper.fork(p, func() (int, error) { return s.spawner.spawn(cmd) })
	ends.closeChild()
	if err != nil {
		ends.closeOurs(p)
		return nil, none, s.explain(cmd, err)
	}
	if s.spawner.pidFDs {
		p.exitFD = cmd.pidFD
	}
	s.table.add(p)
	if opt.timeout > 0 {
		s.limitLifetime(p, opt.timeout)
	}
	return p, ends.ours, nil
}

// ends are the descriptors between the guest and a process.
type ends struct {
	ours  [2]int     // output
	child [3]uintptr // what the child gets as 0, 1 and 2
	close []int      // the child's ends, closed here after the fork
}

func (s *Server) openEnds(p *process, in *envd.StartRequest, id *identity) (e ends, err error) {
	e.ours = [2]int{-1, -1}
	p.exitFD = -1
	if !s.spawner.pidFDs {
		if p.exitFD, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
			return e, os.NewSyscallError("eventfd", err)
		}
		p.told = true
	}
	if p.isPTY {
		err = e.terminal(p, in.PTY.Size)
	} else {
		err = e.pipes(s, p, in.Stdin == nil || *in.Stdin)
	}
	if err != nil {
		e.closeChild()
		e.closeOurs(p)
		return e, err
	}
	if s.cfg.Switch {
		// A command may open /dev/stderr or its terminal again by name, and the
		// kernel then asks whose it is. Where it cannot be given away, all that
		// does not do so still works.
		for _, fd := range e.close {
			unix.Fchown(fd, int(id.UID), int(id.GID))
		}
	}
	return e, nil
}

func (e *ends) pipes(s *Server, p *process, stdin bool) error {
	e.child[0] = s.devNull.Fd()
	for i := range e.ours {
		var fd [2]int
		if err := unix.Pipe2(fd[:], unix.O_CLOEXEC); err != nil {
			return os.NewSyscallError("pipe", err)
		}
		e.ours[i] = fd[0]
		e.child[i+1] = uintptr(fd[1])
		e.close = append(e.close, fd[1])
	}
	if !stdin {
		return nil
	}
	var fd [2]int
	if err := unix.Pipe2(fd[:], unix.O_CLOEXEC); err != nil {
		return os.NewSyscallError("pipe", err)
	}
	e.child[0] = uintptr(fd[0])
	e.close = append(e.close, fd[0])
	unix.SetNonblock(fd[1], true)
	p.input = os.NewFile(uintptr(fd[1]), "stdin")
	return nil
}

// closeChild closes the child's ends, which are the child's alone from now on.
func (e *ends) closeChild() {
	for _, fd := range e.close {
		unix.Close(fd)
	}
	e.close = nil
}

// closeOurs undoes what a start that failed had opened.
func (e *ends) closeOurs(p *process) {
	for _, fd := range e.ours {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
	if p.exitFD >= 0 {
		unix.Close(p.exitFD)
	}
	if p.input != nil {
		p.input.Close()
	}
}
