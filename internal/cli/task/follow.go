package task

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptrace"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/egress"
	"hortus.dev/internal/cli/flags"
	"hortus.dev/internal/cli/human"
	"hortus.dev/internal/cli/image"
	"hortus.dev/internal/cli/localfile"
	"hortus.dev/internal/cli/progress"
	"hortus.dev/internal/cli/task/view"
	"hortus.dev/internal/cli/terminal"
	"hortus.dev/internal/platform/gvisorbuild"
	"hortus.dev/internal/platform/language"
)

// perform runs a task to its end, shows its progress, and turns its outcome into an
// exit code.
func perform(ctx context.Context, a *app.App, req api.CreateTask, f taskFlags, sandbox *flags.Sandbox) error {
	req.RunTimeoutMS, req.InstallTimeoutMS, req.Keep = f.Timeout.Milliseconds(), f.InstallTimeout.Milliseconds(), f.Keep
	var err error
	if req.Sandbox, err = sandbox.CreateRequest(); err != nil {
		return err
	}
	if req.SetupEgress, err = flags.Policy("--setup-egress", f.SetupEgress); err != nil {
		return err
	}
	pull, err := image.Wanted(a, sandbox, &req.Sandbox)
	if err != nil {
		return err
	}
	if pull != nil && req.Replay != nil {
		return api.Errorf(api.KindInvalid, "--image: a replay uses the recorded template; it cannot be set").WithHint("omit --image, and the variable HORTUS_IMAGE")
	}
	out, err := openOut(f.Out)
	if err != nil {
		return err
	}
	defer out.Close()
	if f.Detach && f.Out != "" {
		return api.Errorf(api.KindInvalid, "--detach and --out exclude each other: the files do not exist yet").
			WithHint("when it is done: hortus task code last --out %s", f.Out)
	}
	return start(ctx, a, req, pull, out, f.Detach)
}

// start is task with a request that is complete but for the image of its sandboxes, which is
// pulled first unless pull is nil; detach starts it and no more.
func start(ctx context.Context, a *app.App, req api.CreateTask, pull *api.PullImage, out *outDir, detach bool) error {
	m := req.Models
	return startWith(ctx, a, append(modelsOf(req.Repo), req.Model, m.Planner, m.Coder, m.Debugger, m.Large, m.Small), out, detach,
		func(ctx context.Context, c *client.Client, stop *terminal.Interrupts) (api.Task, error) {
			if err := useImage(ctx, a, c, pull, &req.Sandbox, stop); err != nil {
				return api.Task{}, err
			}
			return c.Tasks.Create(ctx, req)
		})
}

// startWith is perform for a task that create creates, with models of those names.
func startWith(ctx context.Context, a *app.App, models []string, out *outDir, detach bool, create func(context.Context, *client.Client, *terminal.Interrupts) (api.Task, error)) error {
	// From here on Ctrl-C cancels the task instead of ending this process.
	stop := terminal.CatchInterrupts(a)
	defer stop.Close()

	c, err := Client(ctx, a, models...)
	if err != nil {
		return err
	}
	began := time.Now()
	t, err := create(ctx, c, stop)
	if err != nil {
		return err
	}
	if detach {
		return detached(a, t)
	}
	p := view.NewProgress(a.Env, a.Flags.Quiet, t.ID)
	defer p.Close()
	t, err = Follow(ctx, a, c, t.ID, p, stop)
	if err != nil {
		return err
	}
	p.Close()
	return finish(ctx, a, c, t, p, out, time.Since(began))
}

// useImage pulls the image of a request's sandboxes, until the first interrupt.
func useImage(ctx context.Context, a *app.App, c *client.Client, pull *api.PullImage, req *api.CreateSandbox, stop *terminal.Interrupts) error {
	if pull == nil {
		return nil
	}
	ctx, done := stop.Cancel(ctx, nil)
	defer done()
	_, err := image.Use(ctx, a, c, pull, req)
	return err
}

// Follow shows a task's events until it is done. The first interrupt cancels the
// task, and following continues to its receipt.
func Follow(ctx context.Context, a *app.App, c *client.Client, id api.TaskID, p *view.Progress, stop *terminal.Interrupts) (api.Task, error) {
	ended := make(chan struct{})
	canceling := make(chan struct{})
	go func() {
		defer close(canceling)
		if !stop.First(ended) {
			return
		}
		// The request must have left this process before a second interrupt may end
		// it: the daemon then cancels whether or not anybody waits.
		sent := make(chan struct{})
		var once sync.Once
		done := func(say string) {
			once.Do(func() {
				if say != "" {
					p.Say(say)
				}
				close(sent)
			})
		}
		defer done("")
		stop.Before(func() {
			select {
			case <-sent:
			case <-time.After(time.Second):
			}
		})
		cctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		cctx = httptrace.WithClientTrace(cctx, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) {
			done("cancelling; press Ctrl-C again to end this command immediately")
		}})
		if _, err := c.Tasks.Cancel(cctx, id); err != nil && api.KindOf(err) != api.KindConflict {
			p.Say("cancel: " + err.Error())
		}
	}()
	defer func() { close(ended); <-canceling }()
	ctx = a.Patient(ctx, c, p.Say)
	for e, err := range c.Tasks.Events(ctx, id, 0) {
		if err != nil {
			return api.Task{}, unfollowed(err, p, id)
		}
		p.Event(e)
	}
	t, err := c.Tasks.Get(ctx, string(id))
	return t, app.Unfollowed(err, again(id))
}

// unfollowed is the error of a command that shows a task, if no daemon serves it any more.
func unfollowed(err error, p *view.Progress, id api.TaskID) error {
	if p.Left {
		return app.Left(err, "task "+id.Short(), again(id))
	}
	return app.Unfollowed(err, again(id))
}

// again is the command that follows a task again.
func again(id api.TaskID) string { return "hortus task watch " + id.Short() }

// Client returns a client of a daemon that has the keys of models.
func Client(ctx context.Context, a *app.App, models ...string) (*client.Client, error) {
	a.NeedModels = slices.ContainsFunc(models, func(name string) bool {
		return name != "" && name != "offline" && !strings.HasPrefix(name, view.RecordingPrefix)
	})
	return a.Client(ctx)
}

type taskWatchCmd struct {
	ID  string `arg:"" complete:"tasks" help:"Task ID, a unique prefix of it, or last for the newest task."`
	Out string `name:"out" complete:"dirs" placeholder:"DIR" help:"Directory to write the verified program's files to."`
}

// Help returns what the first line of help does not.
func (taskWatchCmd) Help() string {
	return "Shows past and new events until the task ends, then exits with the task's exit code. " +
		"Ctrl-C stops watching; the task continues. With --json each event is one line."
}

// Run follows a task to its end.
func (c *taskWatchCmd) Run(ctx app.Context, a *app.App, cl *client.Client) error {
	t, err := find(ctx, cl, c.ID)
	if err != nil {
		return err
	}
	out, err := openOut(c.Out)
	if err != nil {
		return err
	}
	defer out.Close()
	p := view.NewProgress(a.Env, a.Flags.Quiet || a.Flags.JSON, t.ID)
	defer p.Close()
	patient := a.Patient(ctx, cl, p.Say)
	ended, err := watch(patient, a, cl, t.ID, p)
	p.Close()
	if err != nil {
		return unfollowed(err, p, t.ID)
	}
	if !ended {
		a.Note("the task keeps running. To follow it: hortus task watch %s. To stop it: hortus task cancel %[1]s", t.ID.Short())
		return app.ExitCode(130)
	}
	if t, err = cl.Tasks.Get(patient, string(t.ID)); err != nil {
		return app.Unfollowed(err, again(t.ID))
	}
	if a.Flags.JSON { // the last event has the result
		return ExitOf(t.Outcome, t.Error)
	}
	return finish(ctx, a, cl, t, p, out, t.EndedAt.Sub(t.CreatedAt))
}

// watch shows a task's events until its end, or until the first interrupt.
func watch(ctx context.Context, a *app.App, cl *client.Client, id api.TaskID, p *view.Progress) (ended bool, err error) {
	in := terminal.CatchInterrupts(a)
	defer in.Close()
	ctx, done := in.Cancel(ctx, nil)
	defer done()
	lines := json.NewEncoder(a.Env.Stdout)
	lines.SetEscapeHTML(false)
	for e, err := range cl.Tasks.Events(ctx, id, 0) {
		if ctx.Err() != nil {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if p.Left = e.Type == api.EventTaskLeft; !a.Flags.JSON {
			p.Event(e)
		} else if err := lines.Encode(e); err != nil {
			return false, api.Errorf(api.KindInternal, "write the answer: %w", err)
		}
	}
	return ctx.Err() == nil, nil
}

// detached prints where a task that was only started can be followed.
func detached(a *app.App, t api.Task) error {
	if a.Flags.JSON {
		return a.JSON(t)
	}
	if _, err := fmt.Fprintln(a.Env.Stdout, human.Sanitize(string(t.ID))); err != nil {
		return api.Errorf(api.KindInternal, "write the answer: %w", err)
	}
	id := t.ID.Short()
	a.Note("task %s runs in the background. To follow it: hortus task watch %[1]s. To stop it: hortus task cancel %[1]s", id)
	return nil
}

// finish prints what a task came to.
func finish(ctx context.Context, a *app.App, c *client.Client, t api.Task, p *view.Progress, out *outDir, took time.Duration) error {
	if t.Create.Repo != nil {
		err := finishRepo(ctx, a, c, t, p, took)
		offerGVisor(a, t, p)
		offerInstall(a, p)
		return err
	}
	if t.Outcome == api.OutcomeVerified {
		if err := out.write(t); err != nil {
			return err
		}
	}
	if a.Flags.JSON {
		if err := a.JSON(t); err != nil {
			return err
		}
	} else if t.Outcome == api.OutcomeVerified {
		if err := taskOutput(ctx, a, c, t.ID, len(t.Attempts), "stdout"); err != nil {
			return err
		}
	}
	p.Verdict(t, took)
	noteDenied(ctx, a, c, t)
	offerGVisor(a, t, p)
	offerInstall(a, p)
	return ExitOf(t.Outcome, t.Error)
}

// finishRepo prints what a task on a repository came to: on stdout the branch, the
// commit and, if there is one, the merge request's address; for each of several
// repositories a line that begins with its name.
func finishRepo(ctx context.Context, a *app.App, c *client.Client, t api.Task, p *view.Progress, took time.Duration) error {
	switch r := t.Repo; {
	case a.Flags.JSON:
		if err := a.JSON(t); err != nil {
			return err
		}
	case r != nil && r.Head != "":
		if err := showResult(a, *r); err != nil {
			return err
		}
	}
	if t.Repo != nil && t.Repo.Head != "" && !a.Flags.JSON && !a.Flags.Quiet {
		p.Patch(ctx, c, t)
	}
	p.RepoVerdict(t, took)
	if err := ExitOf(t.Outcome, t.Error); err != nil {
		return err
	}
	// Anyone who asked for a delivery has not got what was requested without one.
	if t.Create.Repo.Push && !view.Delivered(t, t.Create.Repo.MergeRequest) {
		return app.ExitCode(1)
	}
	return nil
}

// showResult prints the line that programs read.
func showResult(a *app.App, r api.RepoResult) error {
	all := []api.RepositoryResult{{Head: r.Head, Delivery: r.Delivery}}
	if len(r.Repositories) > 0 {
		all = r.Repositories
	}
	for _, m := range all {
		if m.Head == "" {
			continue
		}
		branch := r.Branch
		if m.Delivery != nil && m.Delivery.Pushed != "" {
			branch = m.Delivery.Branch
		}
		line := human.Sanitize(branch) + " " + human.Sanitize(m.Head)
		if m.Delivery != nil && m.Delivery.URL != "" {
			line += " " + human.Sanitize(m.Delivery.URL)
		}
		if m.Name != "" {
			line = human.Sanitize(m.Name) + " " + line
		}
		if _, err := fmt.Fprintln(a.Env.Stdout, line); err != nil {
			return api.Errorf(api.KindInternal, "write the answer: %w", err)
		}
	}
	return nil
}

// ExitOf is the exit code of an outcome with its error.
func ExitOf(o api.Outcome, err *api.Error) error {
	switch o {
	case api.OutcomeVerified, api.OutcomeAnswered:
		return nil
	case api.OutcomeDeclined:
		return app.ExitCode(api.KindDeclined.ExitCode())
	case api.OutcomeCanceled:
		return app.ExitCode(api.KindCanceled.ExitCode())
	case api.OutcomeFailed:
		if err != nil && err.Kind != api.KindInvalid {
			return app.ExitCode(err.Kind.ExitCode())
		}
	}
	return app.ExitCode(1)
}

// taskOutput copies the whole output of an attempt to stdout, byte for byte.
func taskOutput(ctx context.Context, a *app.App, c *client.Client, id api.TaskID, attempt int, stream string) error {
	r, err := c.Tasks.Output(ctx, id, attempt, stream)
	if err != nil {
		return err
	}
	defer r.Close()
	return copyOut(a.Env.Stdout, r, fmt.Sprintf("the output of attempt %d", attempt))
}

// noteDenied shows the outgoing connections that were denied to the last attempt of a program
// that was not verified, and the flag of its phase that allows them.
func noteDenied(ctx context.Context, a *app.App, c *client.Client, t api.Task) {
	if t.Outcome == api.OutcomeVerified || len(t.Attempts) == 0 {
		return
	}
	last := t.Attempts[len(t.Attempts)-1]
	if last.Sandbox == "" {
		return
	}
	egress.NoteDenied(ctx, a, c, api.EgressFilter{Sandbox: last.Sandbox}, func(target string) string {
		if last.Result == nil || last.Result.Phase != api.PhaseInstall {
			return "--egress " + target
		}
		// A flag replaces the default, which is the registry of the language.
		if l, ok := language.Of(last.Artifact.Language); ok && l.Registry != "" && t.Create.SetupEgress == nil {
			target = l.Registry + "," + target
		}
		return "--setup-egress " + target
	})
}

// offerGVisor starts the build of gVisor after a verified task of a program that go run
// made, and says so: such a program has none, so its sandboxes share the host's kernel.
func offerGVisor(a *app.App, t api.Task, p *view.Progress) {
	if a.Env.GoRun == nil || !a.Env.GoRun() || a.Flags.Quiet || t.Outcome != api.OutcomeVerified || p.Isolation != "container" ||
		t.Create.Sandbox.Isolation != "" && t.Create.Sandbox.Isolation != "auto" || a.Config.Get("gvisor.build").Text == "never" {
		return
	}
	if _, is, err := a.Remote(); is || err != nil {
		return
	}
	b, err := a.GVisor()
	if err != nil {
		return
	}
	switch st := b.State(); st.Phase {
	case gvisorbuild.Building:
		p.Say("gVisor has been building for " + human.Duration(time.Since(st.Since).Truncate(time.Second)) + "; sandboxes use it when it is done")
	case gvisorbuild.Failed:
		p.Say("gVisor was not built: " + st.Reason + "; hortus gvisor build tries again")
	case gvisorbuild.Missing:
		dir, err := a.DataDir()
		if err == nil {
			dir, err = filepath.Abs(dir)
		}
		if err == nil {
			err = b.Start("--data-dir", dir, "--quiet", "gvisor", "build")
		}
		if err != nil {
			p.Line("", progress.Yellow, "gVisor is not built: "+err.Error())
			return
		}
		p.Say("building gVisor in the background, once, a minute or two: it gives every later sandbox a kernel of its own")
		p.Say("hortus gvisor status shows how far it is; HORTUS_GVISOR_BUILD=never prevents it")
	}
}

// offerInstall tells users who typed go run and have no hortus on the PATH what to type where
// the lines above say hortus.
func offerInstall(a *app.App, p *view.Progress) {
	if a.Env.GoRun == nil || !a.Env.GoRun() || a.Flags.Quiet {
		return
	}
	if _, err := exec.LookPath("hortus"); err != nil {
		p.Say("there is no hortus on your PATH: type go run ./cmd/hortus for it, or install it: go install ./cmd/hortus")
	}
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
		if err := localfile.Write(o.root, f.Path, mode, bytes.NewReader(f.Bytes())); err != nil {
			failed = append(failed, api.Errorf(api.KindDenied, "--out %s: %w", o.name, err))
		}
	}
	return errors.Join(failed...)
}
