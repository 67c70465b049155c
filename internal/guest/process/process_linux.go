package process

import (
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/guest/output"
)

// Process is one command that a client started: alive, or ended and kept.
type Process struct {
	// Log is the command's output. A command of StartAttached has none.
	Log *output.Log

	execID string
	tag    *string
	config *envd.ProcessConfig
	pid    int // set once, by the fork
	isPTY  bool
	limit  int64 // bytes of output; 0 means no bound
	// outputs are stdout and stderr, or the terminal and -1.
	outputs [2]int

	// exitFD is readable once the process has ended: its own descriptor, or an
	// eventfd that the reaper writes to (told).
	exitFD int
	told   bool
	ended  chan struct{} // closed by the reaper; nil where exitFD says it

	mu     sync.Mutex
	input  *os.File // its stdin or terminal; nil when there is none or it is closed
	status unix.WaitStatus
	gone   bool   // the reaper has the status
	cause  string // why the guest killed it
	keeps  int    // bytes that it was found to keep at its end; the table's
	life   lifetime
}

// PID returns the process's id.
func (p *Process) PID() int { return p.pid }

// exited is called by the reaper, once.
func (p *Process) exited(ws unix.WaitStatus) {
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
func (p *Process) awaitReaper() bool {
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
func (p *Process) setCause(cause string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cause == "" && !p.gone {
		p.cause = cause
	}
}

// Subscribe attaches a reader to the output; see output.Log.
func (p *Process) Subscribe(offset int64, record bool) (*output.Reader, error) {
	r, err := p.Log.Subscribe(offset, record)
	if err != nil {
		return nil, api.Errorf(api.KindOf(err), "process %d: %w", p.pid, err)
	}
	return r, nil
}

// finish records the end after the output is drained. It closes what the pump
// needed and gives the end event.
func (p *Process) finish() *envd.EndEvent {
	p.mu.Lock()
	end := endEvent(p.status, p.cause)
	unix.Close(p.exitFD)
	p.exitFD = -1
	p.mu.Unlock()
	p.Log.Finish(end)
	return end
}

// forget drops what a process that has ended wrote and was given. Its end stays.
func (p *Process) forget() {
	p.Log.Forget()
	p.config = nil
}

// Await waits for the end of a command of StartAttached and returns its exit code, or 128
// and the number of the signal that killed it.
func (p *Process) Await() int {
	<-p.ended
	p.mu.Lock()
	defer p.mu.Unlock()
	return int(endEvent(p.status, "").ExitCode)
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
		e.Status = "exit status " + strconv.Itoa(ws.ExitStatus())
	}
	if e.ExitCode != 0 {
		text := e.Status
		e.Error = &text
	}
	return e
}
