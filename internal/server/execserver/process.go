package execserver

import (
	"context"
	"sync"
	"time"

	"hortus.dev/api"
)

// process is one process of a session.
type process struct {
	name  string
	input chan []byte // nil if it takes none

	mu       sync.Mutex
	proc     Process // nil while it starts
	waiting  int     // bytes in input
	retained []chunk
	size     int
	seq      uint64
	exited   bool
	code     int
	closed   bool
	failure  string
	changed  chan struct{} // closed at the next change
	done     chan struct{} // closed when it has ended
}

// chunk is a piece of output.
type chunk struct {
	Seq    uint64 `json:"seq"`
	Stream string `json:"stream"`
	Chunk  []byte `json:"chunk"`
}

// follow carries a process's output, and then tells its end.
func (s *session) follow(p *process, proc Process) {
	code, err := proc.Wait()
	s.processes.end(p)
	type exit struct {
		ProcessID     string `json:"processId"`
		Seq           uint64 `json:"seq"`
		ExitCode      int    `json:"exitCode"`
		SandboxDenied bool   `json:"sandboxDenied"`
	}
	type end struct {
		ProcessID string `json:"processId"`
		Seq       uint64 `json:"seq"`
	}
	if err != nil {
		// Nobody saw how it ended. The peer must not take that for an exit of 0.
		code = -1
		s.cfg.Log.Warn("the end of a command was not seen", "error", err)
	}
	seq := p.change(func() {
		p.seq++
		p.exited, p.code = true, code
		if err != nil {
			p.failure = "the end of the command was not seen: " + err.Error()
		}
	})
	s.notify("process/exited", exit{ProcessID: p.name, Seq: seq, ExitCode: code})
	seq = p.change(func() {
		p.seq++
		p.closed = true
	})
	s.notify("process/closed", end{p.name, seq})
	close(p.done)
}

// stream takes one stream of a process's output.
type stream struct {
	s    *session
	p    *process
	name string
}

func (w *stream) Write(b []byte) (int, error) {
	for n := 0; n < len(b); n += maxChunk {
		c := chunk{Stream: w.name, Chunk: append([]byte(nil), b[n:min(len(b), n+maxChunk)]...)}
		c.Seq = w.p.change(func() { w.p.keep(&c) })
		// A peer that is gone gets no more of it, and the process still ends.
		w.s.notify("process/output", struct {
			ProcessID string `json:"processId"`
			chunk
		}{w.p.name, c})
	}
	return len(b), nil
}

// keep appends a piece, and drops the oldest beyond the bound.
func (p *process) keep(c *chunk) {
	p.seq++
	c.Seq = p.seq
	p.retained = append(p.retained, *c)
	p.size += len(c.Chunk)
	for p.size > maxRetained {
		p.size -= len(p.retained[0].Chunk)
		p.retained[0] = chunk{}
		p.retained = p.retained[1:]
	}
}

// change changes the process, wakes who waits for that, and returns the last number.
func (p *process) change(do func()) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	do()
	close(p.changed)
	p.changed = make(chan struct{})
	return p.seq
}

type readParams struct {
	ProcessID string `json:"processId"`
	AfterSeq  uint64 `json:"afterSeq"`
	MaxBytes  *int   `json:"maxBytes"`
	WaitMS    int64  `json:"waitMs"`
}

// output is the answer to process/read.
type output struct {
	Chunks        []chunk `json:"chunks"`
	NextSeq       uint64  `json:"nextSeq"`
	Exited        bool    `json:"exited"`
	ExitCode      *int    `json:"exitCode"`
	Closed        bool    `json:"closed"`
	Failure       *string `json:"failure"`
	SandboxDenied bool    `json:"sandboxDenied"`
}

func (s *session) readProcess(ctx context.Context, in readParams) (any, error) {
	p := s.processes.get(in.ProcessID)
	if p == nil {
		return nil, api.Errorf(api.KindConflict, "unknown process id %.64q", in.ProcessID)
	}
	limit := maxRetained
	if in.MaxBytes != nil {
		limit = min(max(*in.MaxBytes, 1), maxRetained)
	}
	wait := time.NewTimer(min(max(time.Duration(in.WaitMS), 0), time.Duration(maxWait/time.Millisecond)) * time.Millisecond)
	defer wait.Stop()
	for {
		out, changed := p.read(in.AfterSeq, limit)
		if len(out.Chunks) > 0 || out.Closed || out.Exited && in.AfterSeq+1 < out.NextSeq {
			return out, nil
		}
		select {
		case <-changed:
		case <-wait.C:
			return out, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// read returns what is kept behind a number, at least one piece and otherwise at most limit
// bytes, and what is closed at the next change.
func (p *process) read(after uint64, limit int) (output, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := output{Chunks: []chunk{}, NextSeq: p.seq + 1, Exited: p.exited, Closed: p.closed}
	if p.exited {
		code := p.code
		out.ExitCode = &code
	}
	if p.failure != "" {
		f := p.failure
		out.Failure = &f
	}
	size := 0
	for i, c := range p.retained {
		if c.Seq <= after {
			continue
		}
		if size > 0 && size+len(c.Chunk) > limit {
			break
		}
		size += len(c.Chunk)
		out.Chunks = append(out.Chunks, c)
		if i+1 < len(p.retained) {
			out.NextSeq = c.Seq + 1
		} else {
			out.NextSeq = p.seq + 1
		}
	}
	return out, p.changed
}

type writeParams struct {
	ProcessID string `json:"processId"`
	Chunk     []byte `json:"chunk"`
}

func (s *session) writeProcess(in writeParams) (any, error) {
	type status struct {
		Status string `json:"status"`
	}
	p := s.processes.get(in.ProcessID)
	if p == nil {
		return status{"unknownProcess"}, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.proc == nil:
		return status{"starting"}, nil
	case p.input == nil, p.exited:
		return status{"stdinClosed"}, nil
	case p.waiting+len(in.Chunk) > maxInput:
		return nil, api.Errorf(api.KindExhausted, "the command has not read the %d bytes that it got before: at most %d bytes can wait", p.waiting, maxInput)
	}
	select {
	case p.input <- in.Chunk:
		p.waiting += len(in.Chunk)
		return status{"accepted"}, nil
	default:
		return nil, api.Errorf(api.KindExhausted, "the command has not read the %d writes that it got before", cap(p.input))
	}
}

// feed carries input until the process has ended.
func (p *process) feed(proc Process) {
	for {
		select {
		case <-p.done:
			return
		case b := <-p.input:
			_, err := proc.Write(b)
			p.mu.Lock()
			p.waiting -= len(b)
			p.mu.Unlock()
			if err != nil {
				return // it has ended, or takes no more; what waits is bounded
			}
		}
	}
}

type nameParams struct {
	ProcessID string `json:"processId"`
	Signal    string `json:"signal"`
}

func (s *session) signalProcess(ctx context.Context, in nameParams) (any, error) {
	if in.Signal != "interrupt" {
		return nil, api.Errorf(api.KindInvalid, "unknown signal %.64q", in.Signal)
	}
	if s.processes.get(in.ProcessID) == nil {
		return nil, api.Errorf(api.KindConflict, "unknown process id %.64q", in.ProcessID)
	}
	_, err := s.signal(ctx, in.ProcessID, sigint)
	return struct{}{}, err
}

func (s *session) terminateProcess(ctx context.Context, in nameParams) (any, error) {
	running, err := s.signal(ctx, in.ProcessID, sigkill)
	return struct {
		Running bool `json:"running"`
	}{running}, err
}

// The signals, as their numbers are in the sandbox.
const (
	sigint  = 2
	sigkill = 9
)

// signal sends a signal to a process, and reports whether it ran.
func (s *session) signal(ctx context.Context, name string, signal int) (bool, error) {
	p := s.processes.get(name)
	if p == nil {
		return false, nil
	}
	p.mu.Lock()
	proc, exited := p.proc, p.exited
	p.mu.Unlock()
	if proc == nil || exited {
		return false, nil
	}
	switch err := proc.Signal(ctx, signal); api.KindOf(err) {
	case api.KindNotFound, api.KindConflict: // it has just ended
		return false, nil
	default:
		return err == nil, err
	}
}

// killAll kills what runs and waits for its end, up to a bound.
func (s *session) killAll() {
	ctx, cancel := context.WithTimeout(s.life, killTimeout)
	defer cancel()
	var kills sync.WaitGroup
	for _, p := range s.processes.live() {
		kills.Go(func() {
			if _, err := s.signal(ctx, p.name, sigkill); err != nil {
				s.cfg.Log.Warn("a command could not be killed", "error", err)
				return
			}
			select {
			case <-p.done:
			case <-ctx.Done():
			}
		})
	}
	kills.Wait()
}
