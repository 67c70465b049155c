package runner

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"

	"hortus.dev/api"
	"hortus.dev/api/envd"
)

const (
	// pipeFrame is how much input is sent at once, in bytes.
	pipeFrame = 32 << 10
	// pipeQueue is how many pieces of output wait for the reader. The guest waits when there are more.
	pipeQueue = 16
	// saidKept is how much of the standard error is kept, from its end.
	saidKept = 16 << 10
)

// Pipe starts a command beside the others that the host talks to: what is written is its input, and what is read is its
// output. Its goroutine ends with the command, with Close, or with the sandbox; Close of the runner waits for it.
func (b *Runner) Pipe(ctx context.Context, req api.ExecRequest) (*Pipe, error) {
	req.Tag, req.Stdin = string(api.NewExecID()), true
	s, err := b.guests.StartExec(ctx, b.info.ID, req)
	if err != nil {
		return nil, err
	}
	p := &Pipe{job: Job{sandbox: b, tag: req.Tag, stream: s, done: make(chan struct{})}, out: make(chan []byte, pipeQueue), closed: make(chan struct{})}
	p.input, p.stop = context.WithCancel(context.WithoutCancel(ctx))
	b.jobs.Go(p.pump)
	return p, nil
}

// Pipe is a command that the host talks to. Read, Write and Close may be called side by side.
type Pipe struct {
	job    Job // without its pump
	out    chan []byte
	closed chan struct{}
	once   sync.Once
	rest   []byte // of Read alone
	// input ends what is being written.
	input context.Context
	stop  context.CancelFunc

	mu   sync.Mutex
	said []byte
}

// pump takes the output until the command ends.
func (p *Pipe) pump() {
	defer close(p.job.done)
	defer close(p.out)
	for {
		ev, err := p.job.stream.Next()
		if err != nil {
			return
		}
		if ev.Data == nil {
			continue
		}
		p.keep(ev.Data.Stderr)
		if len(ev.Data.Stdout) == 0 {
			continue
		}
		select {
		case p.out <- append([]byte(nil), ev.Data.Stdout...):
		case <-p.closed: // nobody reads; what comes is counted until the command ends
		case <-p.job.stream.Ended():
		}
	}
}

func (p *Pipe) keep(text []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.said = append(p.said, text...)
	if n := len(p.said); n > 2*saidKept {
		p.said = append(p.said[:0], p.said[n-saidKept:]...)
	}
}

// Said returns the end of what the command wrote to its standard error.
func (p *Pipe) Said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return string(p.said[max(0, len(p.said)-saidKept):])
}

// Exec returns the current record of the command.
func (p *Pipe) Exec() api.Exec { return p.job.Exec() }

// Read reads the output. It returns io.EOF when the command has ended, and os.ErrClosed after Close.
func (p *Pipe) Read(b []byte) (int, error) {
	if p.isClosed() {
		return 0, os.ErrClosed
	}
	if len(p.rest) == 0 {
		select {
		case <-p.closed:
			return 0, os.ErrClosed
		case more, ok := <-p.out:
			switch {
			case !ok && p.isClosed():
				return 0, os.ErrClosed
			case !ok:
				return 0, io.EOF
			}
			p.rest = more
		}
	}
	n := copy(b, p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

func (p *Pipe) isClosed() bool {
	select {
	case <-p.closed:
		return true
	default:
		return false
	}
}

// Write writes to the input. It waits while the command does not read.
func (p *Pipe) Write(b []byte) (int, error) {
	done := 0
	for done < len(b) {
		part := b[done:min(len(b), done+pipeFrame)]
		if err := p.job.sandbox.guest.SendInput(p.input, envd.Selector{Tag: &p.job.tag}, envd.ProcessInput{Stdin: part}); err != nil {
			if errors.Is(err, context.Canceled) {
				err = os.ErrClosed
			}
			return done, envd.APIError(err)
		}
		done += len(part)
	}
	return done, nil
}

// Close kills the command with its process group, and waits for it. It is idempotent.
func (p *Pipe) Close() error {
	p.once.Do(func() {
		p.stop()
		close(p.closed)
	})
	p.job.Close()
	return nil
}

var _ io.ReadWriteCloser = (*Pipe)(nil)
