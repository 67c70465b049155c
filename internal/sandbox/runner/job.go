package runner

import (
	"context"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/sandbox/command"
)

const (
	// jobKept is the number of bytes of a job's output that are kept, from its end.
	jobKept = 1 << 20
	// jobGrace is the maximum time between the signal and the end of a killed command.
	jobGrace = 10 * time.Second
)

// Start runs a command beside the others. The job's goroutine ends with the command, with
// Close of the job, or with the sandbox; Close of the runner waits for it.
func (b *Runner) Start(ctx context.Context, req api.ExecRequest) (*Job, error) {
	// Kill finds the command by its tag: its pid may be reused.
	req.Tag = string(api.NewExecID())
	s, err := b.guests.StartExec(ctx, b.info.ID, req)
	if err != nil {
		return nil, err
	}
	j := &Job{sandbox: b, tag: req.Tag, stream: s, done: make(chan struct{})}
	b.jobs.Go(j.pump)
	return j, nil
}

// Job is a command that runs beside the others of its sandbox. Its methods may be called
// from several goroutines.
type Job struct {
	sandbox *Runner
	tag     string
	stream  *command.Stream // only pump reads events; everybody may read the record
	done    chan struct{}

	mu    sync.Mutex
	kept  []byte // the end of the output, at most 2*jobKept bytes
	total int64
}

func (j *Job) pump() {
	defer close(j.done)
	for {
		// The record says how the command ended.
		ev, err := j.stream.Next()
		if err != nil {
			return
		}
		if ev.Data != nil {
			j.take(ev.Data.Stdout)
			j.take(ev.Data.Stderr)
		}
	}
}

func (j *Job) take(p []byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.total += int64(len(p))
	j.kept = append(j.kept, p...)
	if n := len(j.kept); n > 2*jobKept {
		j.kept = append(j.kept[:0], j.kept[n-jobKept:]...)
	}
}

// Output returns at most most bytes of what came after offset, the offset to continue
// from, and whether the command has ended and p reaches its last byte. If next-len(p) is
// above offset, the bytes between are no longer kept.
func (j *Job) Output(offset int64, most int) (p []byte, next int64, ended bool) {
	// Read before the output: a command that has ended writes no more.
	over := j.over()
	j.mu.Lock()
	defer j.mu.Unlock()
	first := j.total - int64(len(j.kept))
	at := min(max(offset, first), j.total) - first
	p = j.kept[at:min(at+int64(most), int64(len(j.kept)))]
	next = first + at + int64(len(p))
	return append([]byte(nil), p...), next, over && next == j.total
}

func (j *Job) over() bool {
	select {
	case <-j.done:
		return true
	default:
		return false
	}
}

// Exec returns the current record of the command.
func (j *Job) Exec() api.Exec { return j.stream.Exec() }

// Wait waits until the command has ended, or returns the error of ctx.
func (j *Job) Wait(ctx context.Context) error {
	select {
	case <-j.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Kill ends the command and its process group, and waits for the end.
func (j *Job) Kill(ctx context.Context) error {
	if j.over() {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, jobGrace)
	defer cancel()
	err := envd.APIError(j.sandbox.guest.SendSignal(limited, envd.Selector{Tag: &j.tag}, envd.Signal(9)))
	if err != nil && api.KindOf(err) != api.KindNotFound { // it has just ended
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return err
	}
	if err := j.Wait(limited); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return api.Errorf(api.KindUnavailable, "command %s in sandbox %s was killed and did not end within %s", j.Exec().ID, j.sandbox.info.ID, jobGrace)
	}
	return nil
}

// Close kills the command. If the guest does not end it in time, the whole sandbox is
// killed.
func (j *Job) Close() {
	if j.Kill(context.Background()) == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*jobGrace)
	defer cancel()
	if _, err := j.sandbox.Close(ctx); err == nil {
		<-j.done
	}
}
