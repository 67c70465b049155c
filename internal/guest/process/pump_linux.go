package process

import (
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/guest/output"
	"hortus.dev/internal/guest/procfs"
)

const (
	// hold is how long the start or some output may wait for what follows, so
	// that a command that ends at once costs one write.
	hold = 2 * time.Millisecond
	// settle is when a command counts as one that lives on.
	settle = 5 * time.Millisecond
	// slowHold and slowSettle are the same on a kernel of the guest's own, where to
	// start a program takes several times as long, and each look costs more.
	slowHold   = 5 * time.Millisecond
	slowSettle = 20 * time.Millisecond
	// maxTail bounds what is read from each pipe after the command's end, when
	// something else still writes to it.
	maxTail = 1 << 20
)

// The places of the descriptors in a pump's poll set.
const (
	pollOut = iota
	pollErr
	pollExit
	pollConn
)

// Client receives a command's output while it is connected. It has received the start
// event, perhaps unsent.
type Client interface {
	Poll() unix.PollFd // reports that the client has left
	CutOff() bool      // the guest ended the connection
	Data(out envd.Output, offset int64, data []byte) error
	Message(m envd.Message) error
	Full() bool
	Flush() error
	End(end *envd.EndEvent) error // sends the end
}

var errClientGone = api.Errorf(api.KindCanceled, "the client has left")

// pump moves a process's output to the log and to the client that started it.
// While that client is there, the pump runs on the goroutine of its connection.
type pump struct {
	m   *Manager
	p   *Process
	fds [2]int // stdout and stderr, or a terminal and -1; -1 when closed
	buf *[]byte

	// What follows is unset once the client is gone.
	c         Client
	keepalive time.Duration
	keep      bool // the client keeps the command's record; see output.Log.ReserveOfHost

	hold    time.Duration // of what is pending; the start may wait longer
	pending time.Time     // when the oldest frame that was not sent was made; zero: none
	quiet   time.Time     // when the client last got something
	settled bool
	written int64 // bytes of output
	lost    error // why the client gets no more, while its connection still waits here
}

// Follow moves the output of a process that was just started to its log and to the client
// until the process has ended or the client has left; in the latter case the work goes on
// in the background. An error says that the connection is of no more use. keepalive is
// how often a silent client gets a message; 0 means never. record says that the client is
// the host that keeps the command's record.
func (m *Manager) Follow(p *Process, c Client, keepalive time.Duration, record bool) error {
	pm := &pump{m: m, p: p, fds: p.outputs, c: c, keepalive: keepalive, keep: record, buf: output.GetBuffer(), pending: time.Now()}
	return pm.run()
}

// run moves output; see Follow.
func (pm *pump) run() error {
	pm.quiet = pm.pending
	pm.hold = hold
	if pm.m.cfg.OwnKernel {
		pm.hold = slowHold
	}
	for {
		exited, gone := pm.step()
		switch {
		case exited:
			return pm.end()
		case gone:
			pm.detach()
			return errClientGone
		}
	}
}

// detach goes on without a client.
func (pm *pump) detach() {
	switch {
	case pm.c == nil:
	case pm.c.CutOff():
		pm.p.Log.Reserve(pm.p.Log.End())
	case pm.keep:
		pm.p.Log.ReserveOfHost(pm.p.Log.End())
	}
	pm.c, pm.pending, pm.keepalive = nil, time.Time{}, 0
	pm.m.pumps.Go(func() { pm.run() })
}

// step waits for something to happen and does what it asks for.
func (pm *pump) step() (exited, gone bool) {
	fds := [4]unix.PollFd{
		pollOut:  {Fd: int32(pm.fds[0]), Events: unix.POLLIN},
		pollErr:  {Fd: int32(pm.fds[1]), Events: unix.POLLIN},
		pollExit: {Fd: int32(pm.p.exitFD), Events: unix.POLLIN},
		pollConn: {Fd: -1},
	}
	if pm.c != nil {
		fds[pollConn] = pm.c.Poll()
	}
	n, err := unix.Poll(fds[:], pm.patience())
	if err != nil && err != unix.EINTR {
		return true, false // cannot happen: the set is ours
	}
	if n <= 0 {
		return false, pm.idle()
	}
	if fds[pollConn].Revents != 0 {
		return false, true
	}
	for i := range pm.fds {
		if fds[i].Revents != 0 {
			if _, err := pm.read(i); err != nil {
				return false, true
			}
		}
	}
	return fds[pollExit].Revents != 0 && pm.m.reaper.reap(pm.p), false
}

// patience is how long poll may wait, in milliseconds.
func (pm *pump) patience() int {
	var until time.Time
	switch {
	case !pm.pending.IsZero():
		until = pm.pending.Add(pm.hold)
	case !pm.settled && pm.m.cfg.OwnKernel:
		return int(slowSettle / time.Millisecond)
	case !pm.settled:
		return int(settle / time.Millisecond)
	case pm.keepalive > 0:
		until = pm.quiet.Add(pm.keepalive)
	default:
		return -1
	}
	// Rounded down, so that nothing is held longer than it may; at 0 poll only
	// looks, and then it is time.
	return int(max(0, time.Until(until)/time.Millisecond))
}

// idle does what falls due when nothing happens. It is true when the client
// turned out to be gone.
func (pm *pump) idle() (gone bool) {
	if !pm.pending.IsZero() {
		return pm.flush() != nil
	}
	if !pm.settled {
		pm.settled = true
		if !pm.m.cfg.OwnKernel { // gVisor has no killer to heed it
			procfs.RaiseOOMScore(pm.p.pid)
		}
		return false
	}
	if pm.c != nil && pm.keepalive > 0 && time.Since(pm.quiet) >= pm.keepalive {
		pm.c.Message(&envd.ProcessResponse{Event: &envd.ProcessEvent{Keepalive: &envd.Empty{}}})
		return pm.flush() != nil
	}
	return false
}

func (pm *pump) flush() error {
	pm.pending, pm.hold = time.Time{}, hold
	if pm.c == nil || pm.lost != nil {
		return nil
	}
	err := pm.c.Flush()
	pm.quiet = time.Now()
	return err
}

// read takes what one descriptor has. The error is the client's.
func (pm *pump) read(i int) (n int, err error) {
	// Never more than the ring holds, or a reader that keeps up would miss some.
	buf := (*pm.buf)[:min(output.BufferSize, pm.p.Log.Limit())]
	n, rerr := unix.Read(pm.fds[i], buf)
	if rerr == unix.EINTR || rerr == unix.EAGAIN {
		return 0, nil
	}
	if n <= 0 { // the end; a terminal says EIO
		unix.Close(pm.fds[i])
		pm.fds[i] = -1
		return 0, nil
	}
	data := buf[:n]
	if limit := pm.p.limit; limit > 0 && pm.written+int64(n) > limit {
		data = data[:max(0, limit-pm.written)]
		pm.written = limit
		pm.m.Kill(pm.p, api.CauseOutput)
	} else {
		pm.written += int64(n)
	}
	if len(data) == 0 {
		return n, nil
	}
	out := envd.OutputStdout + envd.Output(i)
	if pm.p.isPTY {
		out = envd.OutputPTY
	}
	offset := pm.p.Log.Append(out, data, pm.c != nil)
	if pm.c == nil || pm.lost != nil {
		return n, nil
	}
	if err := pm.c.Data(out, offset, data); err != nil {
		return n, err
	}
	if pm.c.Full() {
		return n, pm.flush()
	}
	if pm.pending.IsZero() {
		pm.pending = time.Now()
	}
	return n, nil
}

// end takes what the pipes still hold, records the end and tells the client.
func (pm *pump) end() error {
	for i := range pm.fds {
		for total := 0; pm.fds[i] >= 0 && total < maxTail; {
			set := [1]unix.PollFd{{Fd: int32(pm.fds[i]), Events: unix.POLLIN}}
			if n, err := unix.Poll(set[:], 0); err == unix.EINTR {
				continue
			} else if n <= 0 {
				break
			}
			n, err := pm.read(i)
			if err != nil {
				pm.lost = err
			}
			total += n
		}
	}
	end := pm.p.finish()
	pm.m.table.end(pm.p)
	if pm.fds[0] >= 0 || pm.fds[1] >= 0 {
		pm.drainOn()
	} else {
		output.PutBuffer(pm.buf)
	}
	if pm.c == nil || pm.lost != nil {
		return pm.lost
	}
	return pm.c.End(end)
}

// drainOn goes on reading for a grandchild that kept the pipes, so that it never
// fails for want of a reader. What it writes still goes to the ring.
func (pm *pump) drainOn() {
	rest := &pump{m: pm.m, p: pm.p, fds: pm.fds, buf: pm.buf, written: pm.written}
	pm.m.pumps.Go(func() {
		defer output.PutBuffer(rest.buf)
		for rest.fds[0] >= 0 || rest.fds[1] >= 0 {
			set := [2]unix.PollFd{
				{Fd: int32(rest.fds[0]), Events: unix.POLLIN},
				{Fd: int32(rest.fds[1]), Events: unix.POLLIN},
			}
			if _, err := unix.Poll(set[:], -1); err != nil && err != unix.EINTR {
				return
			}
			for i := range set {
				if set[i].Revents != 0 {
					rest.read(i)
				}
			}
		}
	})
}
