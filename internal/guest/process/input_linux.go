package process

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/guest/terminal"
)

// inputCheckInterval is how often a blocked write checks whether its client has left.
const inputCheckInterval = time.Second

// Sender is the client that sends input.
type Sender interface {
	CutOff() bool // the guest ended its connection
	HungUp() bool // it ended the connection itself
}

func (p *Process) inputFile() *os.File {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.input
}

// Feed writes to a process's input. It blocks while the process does not read, until the
// process ends or the client leaves.
func (p *Process) Feed(in *envd.ProcessInput, c Sender) error {
	if in == nil || (in.Stdin == nil && in.PTY == nil) {
		return api.Errorf(api.KindInvalid, "the request has no input")
	}
	data := in.Stdin
	if (in.PTY != nil) != p.isPTY {
		return api.Errorf(api.KindInvalid, "process %d: terminal input requires a process with a terminal; stdin input requires one without", p.pid)
	}
	if p.isPTY {
		data = in.PTY
	}
	f := p.inputFile()
	if f == nil {
		return api.Errorf(api.KindConflict, "process %d takes no input: its standard input is closed or was never open", p.pid)
	}
	for len(data) > 0 {
		// No input is lost at the deadline: the rest is written in the next round.
		f.SetWriteDeadline(time.Now().Add(inputCheckInterval))
		// Check after setting the deadline: interruptFeed shortens it after the connection
		// was cut.
		if c.CutOff() {
			return errClientGone
		}
		n, err := f.Write(data)
		data = data[n:]
		switch {
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded):
			if c.HungUp() {
				return errClientGone
			}
		case errors.Is(err, unix.EPIPE), errors.Is(err, os.ErrClosed), errors.Is(err, unix.EIO):
			return api.Errorf(api.KindConflict, "process %d takes no more input", p.pid)
		default:
			return api.Errorf(api.KindInternal, "write to process %d: %w", p.pid, err)
		}
	}
	return nil
}

// interruptFeed makes a blocked Feed check whether its client is still connected.
func (p *Process) interruptFeed() {
	if f := p.inputFile(); f != nil {
		f.SetWriteDeadline(time.Unix(1, 0))
	}
}

// CloseInput closes the process's standard input.
func (p *Process) CloseInput() error {
	if p.isPTY {
		return api.Errorf(api.KindInvalid, "process %d has a terminal; send it an end-of-file character instead", p.pid)
	}
	p.mu.Lock()
	f := p.input
	p.input = nil
	p.mu.Unlock()
	if f != nil {
		f.Close()
	}
	return nil
}

// Resize sets the size of a process's terminal.
func (p *Process) Resize(size *envd.Size) error {
	if !p.isPTY {
		return api.Errorf(api.KindInvalid, "process %d has no terminal", p.pid)
	}
	if size == nil {
		return api.Errorf(api.KindInvalid, "the request has no size")
	}
	in := p.inputFile()
	if in == nil {
		return api.Errorf(api.KindNotFound, "process %d has ended", p.pid)
	}
	raw, err := in.SyscallConn()
	if err != nil {
		return err
	}
	cerr := raw.Control(func(fd uintptr) { err = terminal.SetSize(int(fd), size.Cols, size.Rows) })
	if cerr != nil {
		return cerr
	}
	return err
}
