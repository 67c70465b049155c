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

// Process is a command that a client started. It is running, or it has ended and its record
// is kept.
type Process struct {
	// Log is the command's output. A command of StartAttached has none.
	Log *output.Log

	execID string
	tag    *string
	config *envd.ProcessConfig
	pid    int // set once, by the fork
	isPTY  bool
	limit  int64 // maximum bytes of output; 0 for no limit
	// outputs are the descriptors for stdout and stderr, or the terminal and -1.
	outputs [2]int

	// exitFD becomes readable when the process has ended. It is a pidfd, or an eventfd that
	// the reaper writes to (signalled).
	exitFD    int
	signalled bool
	ended     chan struct{} // closed by the reaper; nil unless StartAttached made it

	mu      sync.Mutex
	input   *os.File // stdin or terminal; nil if there is none or it is closed
	status  unix.WaitStatus
	gone    bool   // the reaper has the status
	cause   string // why the guest killed it
	memory  bool   // one of the processes that it started was killed at the memory limit
	logSize int    // memory of the output at its end, in bytes; owned by the table
	life    lifetime
}

// PID returns the process's id.
func (p *Process) PID() int { return p.pid }

// exited records the wait status. The reaper calls it once.
func (p *Process) exited(ws unix.WaitStatus) {
	p.mu.Lock()
	p.status, p.gone = ws, true
	if p.life.timer != nil {
		p.life.timer.Stop()
	}
	in := p.input
	p.input = nil
	// finish closes exitFD under the same lock, so its number cannot have been reused here.
	if p.signalled && p.exitFD >= 0 {
		var one = [8]byte{0: 1}
		unix.Write(p.exitFD, one[:])
	}
	p.mu.Unlock()
	if p.ended != nil {
		close(p.ended)
	}
	if in != nil {
		in.Close() // unblocks writers
	}
}

// awaitReaper replaces the pidfd by an eventfd, so that the reaper reports the end. It
// returns false if that was done before. The caller holds the lock of the reaper.
func (p *Process) awaitReaper() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.signalled {
		return false
	}
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return true // retried with the next call
	}
	unix.Close(p.exitFD)
	p.exitFD, p.signalled = fd, true
	return true
}

// setCause records why the guest kills the process. The first cause wins.
func (p *Process) setCause(cause string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cause == "" && !p.gone {
		p.cause = cause
	}
}

// LosesMemory records that a process which the command started is killed at the memory limit.
// If the command then ends as that process did, with 137, that is its cause too.
func (p *Process) LosesMemory() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.memory = true
}

// Subscribe attaches a reader to the output; see output.Log.
func (p *Process) Subscribe(offset int64, record bool) (*output.Reader, error) {
	r, err := p.Log.Subscribe(offset, record)
	if err != nil {
		return nil, api.Errorf(api.KindOf(err), "process %d: %w", p.pid, err)
	}
	return r, nil
}

// finish records the end after the output is drained, closes exitFD, and returns the end
// event.
func (p *Process) finish() *envd.EndEvent {
	p.mu.Lock()
	end := endEvent(p.status, p.cause)
	if p.memory && end.ExitCode == 128+int32(unix.SIGKILL) && end.Cause == "" {
		end.Cause = api.CauseMemory
	}
	unix.Close(p.exitFD)
	p.exitFD = -1
	p.mu.Unlock()
	p.Log.Finish(end)
	return end
}

// forget drops the output and the configuration of a process that has ended. Its end event
// stays.
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

// endEvent converts a wait status to an end event.
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
