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
	// flushDelay is how long the start event or output may wait for more output, so that a
	// command that ends at once costs one write.
	flushDelay = 2 * time.Millisecond
	// livesAfter is the time after which a command counts as long-lived.
	livesAfter = 5 * time.Millisecond
	// slowFlushDelay and slowLivesAfter apply on a kernel of the guest's own, where
	// starting a program takes several times as long and each poll costs more.
	slowFlushDelay = 5 * time.Millisecond
	slowLivesAfter = 20 * time.Millisecond
	// maxTail is the maximum number of bytes read from each pipe after the command's end,
	// when another process still writes to it.
	maxTail = 1 << 20
)

// Indexes of the descriptors in the poll set of a pump.
const (
	pollOut = iota
	pollErr
	pollExit
	pollConn
)

// Client receives the output of the command that it started. It has received the start
// event, or has it buffered.
type Client interface {
	Poll() unix.PollFd // becomes ready when the client leaves
	CutOff() bool      // the guest ended the connection
	Data(out envd.Output, offset int64, data []byte) error
	Message(m envd.Message) error
	Full() bool
	Flush() error
	End(end *envd.EndEvent) error // ends the stream
}

var errClientGone = api.Errorf(api.KindCanceled, "the client disconnected")

// pump moves the output of a process to its log and to the client that started it. While
// the client is connected, the pump runs on the goroutine of the connection.
type pump struct {
	m   *Manager
	p   *Process
	fds [2]int // stdout and stderr, or a terminal and -1; -1 when closed
	buf *[]byte

	// c, keepalive and record are unset after the client has left.
	c         Client
	keepalive time.Duration
	record    bool // the client is the host; see output.Log.ReserveOfHost

	flushDelay   time.Duration // delay of pending output; longer for the start event
	pendingSince time.Time     // when the oldest unsent frame was added; zero if there is none
	lastSent     time.Time     // when output was last sent to the client
	livesOn      bool
	written      int64 // bytes of output
	lost         error // why sending to the client failed at the end; c stays set
}

// Follow moves the output of a process that was just started to its log and to the client,
// until the process ends or the client leaves. If the client leaves, Follow returns an
// error and a goroutine in the background continues. After any error the connection must be
// closed. A client that gets no output receives a message every keepalive; 0 disables it.
// record is true if the client is the host that keeps the record of the command.
func (m *Manager) Follow(p *Process, c Client, keepalive time.Duration, record bool) error {
	pm := &pump{m: m, p: p, fds: p.outputs, c: c, keepalive: keepalive, record: record, buf: output.GetBuffer(), pendingSince: time.Now()}
	return pm.run()
}

// run moves output; see Follow.
func (pm *pump) run() error {
	pm.lastSent = pm.pendingSince
	pm.flushDelay = flushDelay
	if pm.m.cfg.OwnKernel {
		pm.flushDelay = slowFlushDelay
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

// detach continues in the background without the client.
func (pm *pump) detach() {
	switch {
	case pm.c == nil:
	case pm.c.CutOff():
		pm.p.Log.Reserve(pm.p.Log.End())
	case pm.record:
		pm.p.Log.ReserveOfHost(pm.p.Log.End())
	}
	pm.c, pm.pendingSince, pm.keepalive = nil, time.Time{}, 0
	pm.m.pumps.Go(func() { pm.run() })
}

// step waits for one event and handles it.
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
	n, err := unix.Poll(fds[:], pm.pollTimeout())
	if err != nil && err != unix.EINTR {
		return true, false // cannot happen
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

// pollTimeout is the timeout of poll, in milliseconds.
func (pm *pump) pollTimeout() int {
	var until time.Time
	switch {
	case !pm.pendingSince.IsZero():
		until = pm.pendingSince.Add(pm.flushDelay)
	case !pm.livesOn && pm.m.cfg.OwnKernel:
		return int(slowLivesAfter / time.Millisecond)
	case !pm.livesOn:
		return int(livesAfter / time.Millisecond)
	case pm.keepalive > 0:
		until = pm.lastSent.Add(pm.keepalive)
	default:
		return -1
	}
	// Rounded down, so that no output waits too long. With 0, poll returns at once: the
	// deadline has passed or is less than a millisecond away.
	return int(max(0, time.Until(until)/time.Millisecond))
}

// idle handles a timeout of poll. It returns true if the client has left.
func (pm *pump) idle() (gone bool) {
	if !pm.pendingSince.IsZero() {
		return pm.flush() != nil
	}
	if !pm.livesOn {
		pm.livesOn = true
		if !pm.m.cfg.OwnKernel { // gVisor has no OOM killer
			score := 500
			if pm.m.cfg.OwnMachine { // its engine may have given the guest a score of up to 999
				score = 1000
			}
			procfs.SetOOMScore(pm.p.pid, score)
		}
		return false
	}
	if pm.c != nil && pm.keepalive > 0 && time.Since(pm.lastSent) >= pm.keepalive {
		pm.c.Message(&envd.ProcessResponse{Event: &envd.ProcessEvent{Keepalive: &envd.Empty{}}})
		return pm.flush() != nil
	}
	return false
}

func (pm *pump) flush() error {
	pm.pendingSince, pm.flushDelay = time.Time{}, flushDelay
	if pm.c == nil || pm.lost != nil {
		return nil
	}
	err := pm.c.Flush()
	pm.lastSent = time.Now()
	return err
}

// read reads from one descriptor. The error is the client's.
func (pm *pump) read(i int) (n int, err error) {
	// Never read more than the log holds: even a reader that keeps up would lose output.
	buf := (*pm.buf)[:min(output.BufferSize, pm.p.Log.Limit())]
	n, rerr := unix.Read(pm.fds[i], buf)
	if rerr == unix.EINTR || rerr == unix.EAGAIN {
		return 0, nil
	}
	if n <= 0 { // the end; a terminal returns EIO
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
	if pm.pendingSince.IsZero() {
		pm.pendingSince = time.Now()
	}
	return n, nil
}

// end drains the pipes, records the end and sends it to the client.
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
		pm.drainInBackground()
	} else {
		output.PutBuffer(pm.buf)
	}
	if pm.c == nil || pm.lost != nil {
		return pm.lost
	}
	return pm.c.End(end)
}

// drainInBackground continues to read into the log while a grandchild has the pipes open,
// so that its writes do not fail.
func (pm *pump) drainInBackground() {
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
