package guest

import (
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/api/envd"
)

// process is one command that a client started: alive, or ended and kept.
type process struct {
	execID string
	tag    *string
	config *envd.ProcessConfig
	pid    int // set once, by the fork
	isPTY  bool
	limit  int64 // bytes of output; 0 means no bound

	// exitFD is readable once the process has ended: its own descriptor, or an
	// eventfd that the reaper writes to (told).
	exitFD int
	told   bool
	fds    [2]int
	ended  chan struct{} // closed by the reaper; nil where exitFD says it

	mu    sync.Mutex
	space sync.Cond // a reader moved on, or left
	ring  ring
	subs  map[*subscriber]struct{}
	// patience ends what is held for clients that do not come back.
	patience *time.Timer
	grace    *time.Timer // the same of what is kept for the clients of a host that died
	input    *os.File    // its stdin or terminal; nil when there is none or it is closed
	ptyFD    int         // the terminal's master, for its size; -1 for none
	status   unix.WaitStatus
	gone     bool   // the reaper has the status
	cause    string // why the guest killed it
	end      *envd.EndEvent
	keeps    int // bytes that it was found to keep at its end; the table's
	life     lifetime
}

// subscriber is a Connect stream. It reads the ring at its own pace.
type subscriber struct {
	at   int64
	wake chan struct{} // of length 1
	held bool          // nobody reads: it keeps output for a client that comes back
	kept bool          // held for the clients of a host that died
}

// exited is called by the reaper, once.
func (p *process) exited(ws unix.WaitStatus) {
	p.mu.Lock()
	p.status, p.gone = ws, true
	if p.life.timer != nil {
		p.life.timer.Stop()
	}
	in := p.input
	p.input = nil
	// The descriptor is closed under the same lock, later, so that its number
	// cannot be another's when it is written here.
	if p.told && p.exitFD >= 0 {
		var one = [8]byte{0: 1}
		unix.Write(p.exitFD, one[:])
	}
	p.mu.Unlock()
	if p.ended != nil {
		close(p.ended)
	}
	if in != nil {
		in.Close() // ends writers that wait for a reader that is no more
	}
}

// awaitReaper has the reaper tell of the end from now on. It is called before
// that, with the reaper's lock held. It is false where that is so already.
func (p *process) awaitReaper() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.told {
		return false
	}
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return true // it is asked for again
	}
	unix.Close(p.exitFD)
	p.exitFD, p.told = fd, true
	return true
}

// setCause records why the guest kills the process; the first reason holds.
func (p *process) setCause(cause string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cause == "" && !p.gone {
		p.cause = cause
	}
}

// put keeps output and wakes those who wait for it. It gives the offset of the
// first byte. When a reader is further behind than the ring is long, it waits:
// that is how a slow reader slows the process. A pump that has a client does not wait
// for one that is to come back: it must see its own client's end.
func (p *process) put(out envd.Output, data []byte, client bool) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.lagging(len(data), client) {
		p.space.Wait()
	}
	from := p.ring.end
	p.ring.append(out, data)
	for s := range p.subs {
		s.notify()
	}
	return from
}

// lagging says whether n more bytes would drop some that a reader still wants. Of
// one that reads, what it was given last may be on its way, and is wanted again
// when the connection is ended: half of what is kept is for that; see hold.
func (p *process) lagging(n int, client bool) bool {
	for s := range p.subs {
		room := int64(p.ring.limit / 2)
		if s.held {
			room = int64(p.ring.limit)
		}
		if (!s.held || !client) && p.ring.end+int64(n)-s.at > room && s.at < p.ring.end {
			return true
		}
	}
	return false
}

func (s *subscriber) notify() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// subscribe attaches a reader. Offset -1 means from now on; record says that it is
// the command's host, not a client of it.
func (p *process) subscribe(offset int64, record bool) (*subscriber, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if offset >= 0 {
		p.comeBack(offset, record)
	}
	if len(p.subs) >= maxSubscribers {
		return nil, api.Errorf(api.KindExhausted, "process %d: %d clients are attached to it already", p.pid, maxSubscribers)
	}
	if offset > p.ring.end {
		return nil, api.Errorf(api.KindInvalid, "process %d: offset %d is beyond its output of %d bytes", p.pid, offset, p.ring.end)
	}
	if offset < 0 {
		offset = p.ring.end
	}
	s := &subscriber{at: max(offset, p.ring.start), wake: make(chan struct{}, 1)}
	if p.subs == nil {
		p.subs = make(map[*subscriber]struct{})
	}
	p.subs[s] = struct{}{}
	switch {
	case record:
		p.keepForAWhile()
	case offset >= 0:
		p.keptBy(s)
	}
	return s, nil
}

func (p *process) unsubscribe(s *subscriber) {
	p.mu.Lock()
	delete(p.subs, s)
	p.mu.Unlock()
	p.space.Broadcast()
}

// read copies kept output behind the reader's place into buf, and moves it on.
// end is set when there is nothing left to come.
func (p *process) read(s *subscriber, buf []byte) (out envd.Output, from int64, n int, end *envd.EndEvent) {
	p.mu.Lock()
	out, from, data := p.ring.at(s.at)
	n = copy(buf, data)
	s.at = from + int64(n)
	if n == 0 {
		end = p.end
	}
	p.mu.Unlock()
	if n > 0 {
		p.space.Broadcast()
	}
	return out, from, n, end
}

// finish records the end after the output is drained. It closes what the pump
// needed and gives the end event.
func (p *process) finish() *envd.EndEvent {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end = endEvent(p.status, p.cause)
	unix.Close(p.exitFD)
	p.exitFD = -1
	for s := range p.subs {
		s.notify()
	}
	return p.end
}

// endEvent describes a wait status.
func endEvent(ws unix.WaitStatus, cause string) *envd.EndEvent {
	e := &envd.EndEvent{Cause: cause}
	if ws.Signaled() {
		e.ExitCode = 128 + int32(ws.Signal())
		e.Status = "signal: " + ws.Signal().String()
		if ws.CoreDump() {
			e.Status += " (core dumped)"
		}
	} else {
		e.Exited = true
		e.ExitCode = int32(ws.ExitStatus())
		e.Status = exitText(ws.ExitStatus())
	}
	if e.ExitCode != 0 {
		text := e.Status
		e.Error = &text
	}
	return e
}
