package tool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent/loop"
)

// Bounds of commands.
const (
	defaultTimeout = 120  // seconds
	maxTimeout     = 1800 // seconds
	// maxCommand is below what the kernel takes as one argument (128 KiB).
	maxCommand = 100_000
)

const shellAbout = `Run a script with bash, or sh if bash is not installed. The result is stdout and stderr, then the status, for example "[exit code 0]". Each call is a new process: cd and exports do not persist. There is no terminal, and stdin is empty.`

func (s *Set) shell() *tool {
	return &tool{name: "shell", about: shellAbout, run: s.runShell, forget: s.printed.forget, input: fields{
		{name: "command", kind: "string", need: true, doc: "Script to run."},
		{name: "cwd", kind: "string", doc: "Where to run."},
		{name: "env", kind: "object", doc: "Additions to the environment."},
		{name: "timeout_seconds", kind: "integer", min: 1, max: maxTimeout, doc: "The default is 120, or none for a job."},
		{name: "background", kind: "boolean", doc: "Start a job, for servers and long-running commands."},
	}}
}

// quietEnv keeps programs from waiting for a person, and from painting. A test
// run in a repository may not leave caches that nobody asked for either.
var quietEnv = map[string]string{
	"PAGER": "cat", "GIT_PAGER": "cat", "MANPAGER": "cat", "SYSTEMD_PAGER": "",
	"TERM": "dumb", "NO_COLOR": "1", "CI": "1",
	"GIT_TERMINAL_PROMPT": "0", "GIT_EDITOR": "true", "EDITOR": "true", "VISUAL": "true",
	"DEBIAN_FRONTEND":         "noninteractive",
	"PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1", "PYTHONIOENCODING": "utf-8",
	"PIP_PROGRESS_BAR": "off", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1",
	"NPM_CONFIG_PROGRESS": "false", "NPM_CONFIG_FUND": "false", "NPM_CONFIG_UPDATE_NOTIFIER": "false",
}

// command wraps a command line so that both streams are one, in the order of the
// kernel, whichever shell there is.
func command(line string) []string {
	const wrap = `exec 2>&1; if command -v bash >/dev/null; then exec bash -c -- "$1"; else exec sh -c -- "$1"; fi`
	return []string{"sh", "-c", wrap, "sh", line}
}

func (s *Set) runShell(ctx context.Context, in args) (loop.Result, error) {
	line := in.str("command")
	switch {
	case strings.TrimSpace(line) == "":
		return loop.Result{}, teach("the command is empty")
	case len(line) > maxCommand:
		return loop.Result{}, teach("the command has %d bytes; the maximum is %d. Write it to a file with create and run the file", len(line), maxCommand)
	case strings.ContainsRune(line, 0):
		return loop.Result{}, teach("the command contains a NUL character")
	}
	req := api.ExecRequest{Args: command(line), Env: maps.Clone(quietEnv)}
	for k, v := range in.pairs("env") {
		if k == "" || strings.ContainsAny(k, "=\x00") || strings.ContainsRune(v, 0) {
			return loop.Result{}, teach("env has an invalid entry %q: a name must not be empty or contain = or NUL, and a value must not contain NUL", clip(k, 60))
		}
		req.Env[k] = v
	}
	if in.has("cwd") {
		w, err := s.where(in.str("cwd"))
		if err != nil {
			return loop.Result{}, err
		}
		if w.say != "." {
			req.Dir = w.abs
		}
	}
	if in.yes("background") {
		req.TimeoutMS = in.num("timeout_seconds", 0) * 1000
		return s.startJob(ctx, line, req)
	}
	seconds := in.num("timeout_seconds", defaultTimeout)
	req.TimeoutMS = seconds * 1000
	out := newCapture(s.cfg.Keep)
	began := time.Now()
	x, err := s.cfg.Sandbox.Run(ctx, req, func(_ string, p []byte) error {
		_, err := out.Write(p)
		return err
	})
	took := time.Since(began)
	text := out.end()
	if err != nil {
		return loop.Result{Text: text, Failed: true, OutputBytes: out.raw}, err
	}
	how := exitLine(x, seconds)
	text = s.printed.once(line, text)
	if text == "" && x.Exit.Code == 0 {
		text = "(no output)\n"
	}
	if x.Exit.Cause == api.CauseTimeout {
		text += timeoutAdvice + "\n"
	}
	text += how
	return loop.Result{
		Text: text, Failed: x.Exit.Code != 0, OutputBytes: out.raw,
		Short: fmt.Sprintf("$ %s  -> %s, %.1f s", oneLine(line, 80), exitShort(x), took.Seconds()),
	}, nil
}

const timeoutAdvice = "The command timed out and was killed. If it needs more time, increase timeout_seconds. If it is a server or a watcher, set background. If it waits for input, pipe the input to it."

// exitLine returns how a command ended, for a model. Seconds is its timeout.
func exitLine(x api.Exec, seconds int64) string {
	switch {
	case x.Exit.Cause == api.CauseTimeout:
		return fmt.Sprintf("[killed: timeout after %d s]", seconds)
	case x.Exit.Cause != "":
		return fmt.Sprintf("[killed: %s]", visible(clip(x.Exit.Cause, 200)))
	case x.State == api.ExecUnknown:
		return "[exit status unknown]"
	case x.Exit.Signal != "":
		return fmt.Sprintf("[killed: %s]", visible(clip(x.Exit.Signal, 40)))
	}
	return fmt.Sprintf("[exit code %d]", x.Exit.Code)
}

// exitShort says it for people.
func exitShort(x api.Exec) string {
	switch {
	case x.Exit.Cause != "":
		return visible(clip(x.Exit.Cause, 80))
	case x.State == api.ExecUnknown:
		return "exit status unknown"
	case x.Exit.Signal != "":
		return visible(clip(x.Exit.Signal, 40))
	}
	return fmt.Sprintf("exit %d", x.Exit.Code)
}

// oneLine makes a short form of a text.
func oneLine(s string, max int) string {
	s = strings.TrimSpace(s)
	if first, _, more := strings.Cut(s, "\n"); more {
		s = strings.TrimSpace(first) + " ..."
	}
	return clip(visible(s), max)
}

// Bounds of the scripts that tools run for themselves.
const (
	scriptTime = 60 * time.Second
	scriptMost = 4 << 20 // bytes of stdout that are kept
)

// script runs a script of ours with sh in a directory of the sandbox.
func (s *Set) script(ctx context.Context, dir, text string, a ...string) (scriptResult, error) {
	return s.program(ctx, dir, append([]string{"sh", "-c", text, "sh"}, a...)...)
}

// scriptResult is what one of them came to. Its output is the sandbox's word.
type scriptResult struct {
	out, errs []byte
	exit      api.Exit
	cut       bool // out ends at scriptMost
}

func (s *Set) program(ctx context.Context, dir string, argv ...string) (res scriptResult, err error) {
	req := api.ExecRequest{Args: argv, Dir: dir, Env: maps.Clone(quietEnv), TimeoutMS: scriptTime.Milliseconds()}
	req.Env["LC_ALL"] = "C.UTF-8"
	out, errs := limitedWriter{max: scriptMost}, limitedWriter{max: 64 << 10}
	x, err := s.cfg.Sandbox.Run(ctx, req, func(stream string, p []byte) error {
		if stream == "stderr" {
			_, err := errs.Write(p)
			return err
		}
		_, err := out.Write(p)
		return err
	})
	return scriptResult{out.b, errs.b, x.Exit, out.cut}, err
}

// limitedWriter keeps the first max bytes.
type limitedWriter struct {
	b   []byte
	max int
	cut bool
}

var _ io.Writer = (*limitedWriter)(nil)

func (w *limitedWriter) Write(p []byte) (int, error) {
	n := min(len(p), w.max-len(w.b))
	w.b = append(w.b, p[:n]...)
	w.cut = w.cut || n < len(p)
	return len(p), nil
}

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
