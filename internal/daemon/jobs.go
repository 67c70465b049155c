package daemon

import (
	"context"
	"hortus.dev/internal/sandbox/command"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/agent/tool"
)

const (
	// jobKept is how much of a job's output is kept: its end, in bytes.
	jobKept = 1 << 20
	// jobGrace bounds the end of a command that was killed. A guest that takes
	// longer is not believed.
	jobGrace = 10 * time.Second
)

// Start implements tool.Box. The job's goroutine ends with the command, with
// Close of the job, or with the sandbox, whose Close waits for it.
func (b *box) Start(ctx context.Context, req api.ExecRequest) (tool.Job, error) {
	// The tag is how it is found again: a pid may be another's by then.
	req.Tag = string(api.NewExecID())
	s, err := b.manager.StartExec(ctx, b.info.ID, req)
	if err != nil {
		return nil, err
	}
	j := &job{box: b, tag: req.Tag, stream: s, done: make(chan struct{})}
	b.jobs.Go(j.pump)
	return j, nil
}

// job is a command that runs beside the others of its sandbox.
type job struct {
	box    *box
	tag    string
	stream *command.Stream // the pump's alone, but for its record
	done   chan struct{}

	mu    sync.Mutex
	kept  []byte // the last bytes of the output, at most 2*jobKept
	total int64
}

func (j *job) pump() {
	defer close(j.done)
	for {
		// However it ends, the record tells.
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

func (j *job) take(p []byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.total += int64(len(p))
	j.kept = append(j.kept, p...)
	if n := len(j.kept); n > 2*jobKept {
		j.kept = append(j.kept[:0], j.kept[n-jobKept:]...)
	}
}

// Output implements tool.Job.
func (j *job) Output(offset int64, most int) ([]byte, int64, bool) {
	// Asked before the output is looked at: what ended prints no more.
	over := j.over()
	j.mu.Lock()
	defer j.mu.Unlock()
	first := j.total - int64(len(j.kept))
	at := min(max(offset, first), j.total) - first
	p := j.kept[at:min(at+int64(most), int64(len(j.kept)))]
	next := first + at + int64(len(p))
	return append([]byte(nil), p...), next, over && next == j.total
}

func (j *job) over() bool {
	select {
	case <-j.done:
		return true
	default:
		return false
	}
}

// Exec implements tool.Job.
func (j *job) Exec() api.Exec { return j.stream.Exec() }

// Wait implements tool.Job.
func (j *job) Wait(ctx context.Context) error {
	select {
	case <-j.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Kill implements tool.Job.
func (j *job) Kill(ctx context.Context) error {
	if j.over() {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, jobGrace)
	defer cancel()
	err := guestError(j.box.guest.SendSignal(limited, envd.Selector{Tag: &j.tag}, envd.Signal(9)))
	if err != nil && api.KindOf(err) != api.KindNotFound { // which is one that has just ended
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return err
	}
	if err := j.Wait(limited); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return api.Errorf(api.KindUnavailable, "command %s in sandbox %s was killed and did not end within %s", j.Exec().ID, j.box.info.ID, jobGrace)
	}
	return nil
}

// Close implements tool.Job. Where the guest does not end the command the whole
// sandbox is killed, which is the one way to be sure.
func (j *job) Close() {
	if j.Kill(context.Background()) == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*jobGrace)
	defer cancel()
	if _, err := j.box.Close(ctx); err == nil {
		<-j.done
	}
}
