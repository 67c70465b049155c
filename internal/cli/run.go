package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/client"
)

type runCmd struct {
	Sentence string   `arg:"" help:"What is wanted; - reads it from stdin."`
	Attempts *int     `env:"HORTUS_ATTEMPTS" placeholder:"N" help:"Passes at most, 1 to 10 (default 3)."`
	File     []string `name:"file" complete:"files" sep:"none" placeholder:"[NAME=]FILE" help:"Put a file into the program's directory, under its own or another name; may be given several times, 2 MiB in all."`
	Record   string   `complete:"files" placeholder:"FILE" help:"Write down every exchange with the models, without secrets, for --model replay:FILE."`
	modelFlag
	taskFlags
	boxFlags
}

// Run asks for a verified program.
func (c *runCmd) Run(ctx runContext, a *app) error {
	sentence := c.Sentence
	if sentence == "-" {
		b, err := a.readInput("-")
		if err != nil {
			return err
		}
		sentence = string(b)
	}
	if sentence = strings.TrimSpace(sentence); sentence == "" {
		return api.Errorf(api.KindInvalid, "the request is empty").WithHint(`hortus run "print the first 20 prime numbers"`)
	}
	req := api.CreateTask{Request: sentence, Model: c.Model.all, Models: c.Model.by}
	var err error
	if req.Files, err = readInputs(c.File); err != nil {
		return err
	}
	if c.Record != "" {
		abs, err := filepath.Abs(c.Record)
		if err != nil {
			return api.Errorf(api.KindInvalid, "--record: %w", err)
		}
		req.Record = abs
	}
	if c.Attempts != nil {
		if req.Attempts = *c.Attempts; req.Attempts < 1 || req.Attempts > api.MaxAttempts {
			return api.Errorf(api.KindInvalid, "--attempts: %d is not between 1 and %d", req.Attempts, api.MaxAttempts)
		}
	}
	return a.task(ctx, req, c.taskFlags, &c.boxFlags)
}

type executeCmd struct {
	Artifact string `arg:"" complete:"files" placeholder:"FILE" help:"The program as JSON (api.CodeArtifact); - reads it from stdin."`
	taskFlags
	boxFlags
}

// Run runs a program once.
func (c *executeCmd) Run(ctx runContext, a *app) error {
	var artifact api.CodeArtifact
	if err := a.readJSON(c.Artifact, &artifact); err != nil {
		return err
	}
	return a.task(ctx, api.CreateTask{Artifact: &artifact}, c.taskFlags, &c.boxFlags)
}

// task runs a task to its end, shows its progress, and turns its outcome into an
// exit code.
func (a *app) task(ctx context.Context, req api.CreateTask, f taskFlags, box *boxFlags) error {
	req.RunTimeoutMS, req.InstallTimeoutMS, req.Keep = f.Timeout.ms(), f.InstallTimeout.ms(), f.Keep
	var err error
	if req.Sandbox, err = box.request(); err != nil {
		return err
	}
	out, err := openOut(f.Out)
	if err != nil {
		return err
	}
	defer out.Close()
	if f.Detach && f.Out != "" {
		return api.Errorf(api.KindInvalid, "--detach and --out exclude each other: the files are not there yet").
			WithHint("when it is done: hortus task code last --out %s", f.Out)
	}
	return a.perform(ctx, req, out, f.Detach)
}

// perform is task with a request that is complete; detach starts it and no more.
func (a *app) perform(ctx context.Context, req api.CreateTask, out *outDir, detach bool) error {
	m := req.Models
	return a.performs(ctx, []string{req.Model, m.Planner, m.Coder, m.Debugger, m.Large}, out, detach,
		func(ctx context.Context, c *client.Client) (api.Task, error) { return c.CreateTask(ctx, req) })
}

// performs is perform for a task that create creates, with models of those names.
func (a *app) performs(ctx context.Context, models []string, out *outDir, detach bool, create func(context.Context, *client.Client) (api.Task, error)) error {
	// From here on Ctrl-C cancels the task instead of ending this process.
	stop := a.interrupts()
	defer stop.close()

	c, err := a.modelClient(ctx, models...)
	if err != nil {
		return err
	}
	began := time.Now()
	t, err := create(ctx, c)
	if err != nil {
		return err
	}
	if detach {
		return a.detached(t)
	}
	p := newProgress(a.env, a.opt.Quiet, t.ID)
	defer p.close()
	t, err = a.follow(ctx, c, t.ID, p, stop)
	if err != nil {
		return err
	}
	p.close()
	return a.finish(ctx, c, t, p, out, time.Since(began))
}

// follow shows a task's events until it is done. The first interrupt cancels the
// task, and following goes on to its receipt.
func (a *app) follow(ctx context.Context, c *client.Client, id api.TaskID, p *progress, stop *interrupts) (api.Task, error) {
	ended := make(chan struct{})
	canceling := make(chan struct{})
	go func() {
		defer close(canceling)
		if !stop.first(ended) {
			return
		}
		// The wish must have left this process before a second interrupt may end
		// it: the daemon then cancels whether or not anybody waits.
		sent := make(chan struct{})
		var once sync.Once
		done := func(say string) {
			once.Do(func() {
				if say != "" {
					p.say(say)
				}
				close(sent)
			})
		}
		defer done("")
		stop.before(func() {
			select {
			case <-sent:
			case <-time.After(time.Second):
			}
		})
		cctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		cctx = httptrace.WithClientTrace(cctx, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) {
			done("cancelling; once more ends this command at once")
		}})
		if _, err := c.CancelTask(cctx, id); err != nil && api.KindOf(err) != api.KindConflict {
			p.say("cancel: " + err.Error())
		}
	}()
	defer func() { close(ended); <-canceling }()
	for e, err := range c.TaskEvents(ctx, id, 0) {
		if err != nil {
			return api.Task{}, err
		}
		p.event(e)
	}
	return c.Task(ctx, string(id))
}

// finish prints what a task came to.
func (a *app) finish(ctx context.Context, c *client.Client, t api.Task, p *progress, out *outDir, took time.Duration) error {
	if t.Create.Repo != nil {
		err := a.finishRepo(ctx, c, t, p, took)
		a.offerGVisor(t, p)
		a.offerInstall(p)
		return err
	}
	if t.Outcome == api.OutcomeVerified {
		if err := out.write(t); err != nil {
			return err
		}
	}
	if a.opt.JSON {
		if err := a.json(t); err != nil {
			return err
		}
	} else if t.Outcome == api.OutcomeVerified {
		if err := a.taskOutput(ctx, c, t.ID, len(t.Attempts), "stdout"); err != nil {
			return err
		}
	}
	p.verdict(t, took)
	a.offerGVisor(t, p)
	a.offerInstall(p)
	return outcome(t)
}

// outcome is the exit code of a task's end.
func outcome(t api.Task) error {
	switch t.Outcome {
	case api.OutcomeVerified:
		return nil
	case api.OutcomeDeclined:
		return exitCode(api.KindDeclined.ExitCode())
	case api.OutcomeCanceled:
		return exitCode(api.KindCanceled.ExitCode())
	case api.OutcomeFailed:
		if t.Error != nil && t.Error.Kind != api.KindInvalid {
			return exitCode(t.Error.Kind.ExitCode())
		}
	}
	return exitCode(1)
}

// taskOutput copies the whole output of an attempt to stdout, byte for byte.
func (a *app) taskOutput(ctx context.Context, c *client.Client, id api.TaskID, attempt int, stream string) error {
	r, err := c.TaskOutput(ctx, id, attempt, stream)
	if err != nil {
		return err
	}
	defer r.Close()
	if _, err := io.Copy(a.env.Stdout, r); err != nil {
		return api.Errorf(api.KindUnavailable, "the output of attempt %d: %w", attempt, err)
	}
	return nil
}

// outDir is where --out writes. The zero value and nil write nothing.
type outDir struct {
	root *os.Root
	name string
}

func openOut(name string) (*outDir, error) {
	if name == "" {
		return &outDir{}, nil
	}
	if err := os.MkdirAll(name, 0o755); err != nil {
		return nil, api.Errorf(api.KindInvalid, "--out: %w", err)
	}
	root, err := os.OpenRoot(name)
	if err != nil {
		return nil, api.Errorf(api.KindInvalid, "--out: %w", err)
	}
	return &outDir{root, name}, nil
}

func (o *outDir) Close() error {
	if o.root == nil {
		return nil
	}
	return o.root.Close()
}

// write leaves a verified task's program and the files that it made.
func (o *outDir) write(t api.Task) error {
	if o.root == nil || len(t.Attempts) == 0 {
		return nil
	}
	last := t.Attempts[len(t.Attempts)-1]
	files := last.Artifact.Files
	if last.Result != nil {
		files = append(files[:len(files):len(files)], last.Result.OutputFiles...)
	}
	// A file that cannot be written does not keep the others from it.
	var failed []error
	for _, f := range files {
		mode := os.FileMode(0o644)
		if f.Executable {
			mode = 0o755
		}
		if err := writeInside(o.root, f.Path, mode, bytes.NewReader(f.Bytes())); err != nil {
			failed = append(failed, api.Errorf(api.KindDenied, "--out %s: %w", o.name, err))
		}
	}
	return errors.Join(failed...)
}

var errEscapes = errors.New("the name leads out of the directory, or has control characters")

// writeInside writes a file below a directory that nothing leads out of. The
// name and the content come from a sandbox.
func writeInside(root *os.Root, name string, mode os.FileMode, r io.Reader) error {
	if !insideName(name) {
		return fmt.Errorf("%.100q: %w", name, errEscapes)
	}
	if i := strings.LastIndexByte(name, '/'); i > 0 {
		if err := root.MkdirAll(name[:i], 0o755); err != nil {
			return err
		}
	}
	// What is there is replaced, not written through: it may be a link.
	if err := root.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	return errors.Join(writeSparse(f, r), f.Close())
}
