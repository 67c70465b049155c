package tool

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent/loop"
)

// Bounds of background jobs.
const (
	maxJobs = 8 // that run at once
	// maxKept is how many are known, with those that ended.
	maxKept = 16
	// jobPiece is how much of a job's output is taken at once, in bytes.
	jobPiece = 256 << 10
)

const jobAbout = `Read the new output of a background job, wait for its end, or kill it.`

// job is a command in the background.
type job struct {
	Job
	id      string
	line    string
	seconds int64 // its timeout
	offset  int64 // what was read so far
}

func (s *Set) job() *tool {
	return &tool{name: "job", about: jobAbout, run: s.runJob, input: fields{
		{name: "id", kind: "string", need: true, doc: "Which job."},
		{name: "action", kind: "string", need: true, enum: []string{"read", "wait", "kill"}, doc: "What to do."},
		{name: "timeout_seconds", kind: "integer", min: 1, max: maxTimeout, doc: "For wait. The default is 120."},
	}}
}

func (s *Set) startJob(ctx context.Context, line string, req api.ExecRequest) (loop.Result, error) {
	running := 0
	for _, j := range s.jobs {
		if j.Exec().State == api.ExecRunning {
			running++
		}
	}
	if running >= maxJobs {
		return loop.Result{}, teach("%d jobs are running, which is the maximum; kill one with job first: %s", running, s.jobList())
	}
	// The oldest that ended makes room.
	for i, j := range s.jobs {
		if len(s.jobs) >= maxKept && j.Exec().State != api.ExecRunning {
			j.Close()
			s.jobs = append(s.jobs[:i], s.jobs[i+1:]...)
			break
		}
	}
	started, err := s.cfg.Sandbox.Start(ctx, req)
	if err != nil {
		return loop.Result{}, err
	}
	s.jobNum++
	j := &job{Job: started, id: fmt.Sprintf("j%d", s.jobNum), line: line, seconds: req.TimeoutMS / 1000}
	s.jobs = append(s.jobs, j)
	return loop.Result{
		Text:  fmt.Sprintf("job %s started; read its output with job {\"id\": %q, \"action\": \"read\"}", j.id, j.id),
		Short: fmt.Sprintf("$ %s &  -> job %s", oneLine(line, 80), j.id),
	}, nil
}

func (s *Set) jobList() string {
	var all []string
	for _, j := range s.jobs {
		state := "ended"
		if j.Exec().State == api.ExecRunning {
			state = "running"
		}
		all = append(all, fmt.Sprintf("%s (%s, %s)", j.id, oneLine(j.line, 40), state))
	}
	if all == nil {
		return "none"
	}
	return strings.Join(all, "; ")
}

func (s *Set) runJob(ctx context.Context, in args) (loop.Result, error) {
	var j *job
	for _, k := range s.jobs {
		if k.id == in.str("id") {
			j = k
		}
	}
	if j == nil {
		return loop.Result{}, teach("job %q does not exist. Jobs: %s", clip(in.str("id"), 40), s.jobList())
	}
	action := in.str("action")
	switch action {
	case "wait":
		limited, cancel := context.WithTimeout(ctx, time.Duration(in.num("timeout_seconds", defaultTimeout))*time.Second)
		err := j.Wait(limited)
		cancel()
		if err != nil && (ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded)) {
			return loop.Result{}, err
		}
	case "kill":
		if err := j.Kill(ctx); err != nil {
			return loop.Result{}, err
		}
	}
	out := newCapture(s.cfg.Keep)
	var lost int64
	done := false
	for range 64 { // a job that prints without end must not hold the call
		p, next, ended := j.Output(j.offset, jobPiece)
		lost += max(next-int64(len(p))-j.offset, 0)
		_, _ = out.Write(p) // which never fails
		done = ended
		if next == j.offset {
			break
		}
		j.offset = next
		if ended {
			break
		}
	}
	text := out.end()
	if lost > 0 {
		text = fmt.Sprintf("[%d earlier bytes were discarded]\n%s", lost, text)
	}
	if text == "" {
		text = "(no new output)\n"
	}
	x, how, short := j.Exec(), "[running]", "running"
	failed := false
	if done || x.State != api.ExecRunning {
		how, short = exitLine(x, j.seconds), exitShort(x)
		failed = x.Exit.Code != 0 && action != "kill"
	}
	return loop.Result{Text: text + how, Failed: failed, Waiting: how == "[running]", OutputBytes: out.raw + lost, Short: fmt.Sprintf("job %s %s  -> %s", j.id, action, short)}, nil
}
