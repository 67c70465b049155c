package task

import (
	"context"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/flags"
	"hortus.dev/internal/cli/image"
	"hortus.dev/internal/cli/task/view"
	"hortus.dev/internal/cli/terminal"
)

// perform runs a task to its end, shows its progress, and turns its outcome into an
// exit code.
func perform(ctx context.Context, a *app.App, req api.CreateTask, f taskFlags, box *flags.Sandbox) error {
	req.RunTimeoutMS, req.InstallTimeoutMS, req.Keep = f.Timeout.Milliseconds(), f.InstallTimeout.Milliseconds(), f.Keep
	var err error
	if req.Sandbox, err = box.CreateRequest(); err != nil {
		return err
	}
	if req.SetupEgress, err = flags.Policy("--setup-egress", f.SetupEgress); err != nil {
		return err
	}
	pull, err := image.Wanted(a, box, &req.Sandbox)
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

	c, err := modelClient(ctx, a, models...)
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
	t, err = follow(ctx, a, c, t.ID, p, stop)
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

// follow shows a task's events until it is done. The first interrupt cancels the
// task, and following continues to its receipt.
func follow(ctx context.Context, a *app.App, c *client.Client, id api.TaskID, p *view.Progress, stop *terminal.Interrupts) (api.Task, error) {
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
	for e, err := range c.Tasks.Events(ctx, id, 0) {
		if err != nil {
			return api.Task{}, err
		}
		p.Event(e)
	}
	return c.Tasks.Get(ctx, string(id))
}

// modelClient is client for a command that asks models.
func modelClient(ctx context.Context, a *app.App, models ...string) (*client.Client, error) {
	a.NeedModels = slices.ContainsFunc(models, func(name string) bool {
		return name != "" && name != "offline" && !strings.HasPrefix(name, view.RecordingPrefix)
	})
	return a.Client(ctx)
}
