package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"hortus.dev/api"
	"hortus.dev/client"
)

type taskWatchCmd struct {
	ID  string `arg:"" complete:"tasks" help:"Task: a unique beginning of its id, or last for the newest."`
	Out string `name:"out" complete:"dirs" placeholder:"DIR" help:"Write the verified program's files there."`
}

// Help says what the first line of help does not.
func (taskWatchCmd) Help() string {
	return "It shows what happened so far and then what comes, and ends with the task, with its exit code. " +
		"Ctrl-C ends the watching alone. With --json each event is a line."
}

// Run follows a task to its end.
func (c *taskWatchCmd) Run(ctx runContext, a *app) error {
	cl, err := a.client(ctx)
	if err != nil {
		return err
	}
	t, err := taskOf(ctx, cl, c.ID)
	if err != nil {
		return err
	}
	out, err := openOut(c.Out)
	if err != nil {
		return err
	}
	defer out.Close()
	p := newProgress(a.env, a.opt.Quiet || a.opt.JSON, t.ID)
	defer p.close()
	ended, err := a.watch(ctx, cl, t.ID, p)
	p.close()
	if err != nil {
		return err
	}
	if !ended {
		a.note("the task goes on: hortus task watch %s follows it again, hortus task cancel %[1]s stops it", t.ID.Short())
		return exitCode(130)
	}
	if t, err = cl.Task(ctx, string(t.ID)); err != nil {
		return err
	}
	if a.opt.JSON { // the last event has the result
		return outcome(t)
	}
	return a.finish(ctx, cl, t, p, out, t.EndedAt.Sub(t.CreatedAt))
}

// watch shows a task's events until its end, or until the first interrupt.
func (a *app) watch(ctx context.Context, cl *client.Client, id api.TaskID, p *progress) (ended bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	in := a.interrupts()
	defer in.close()
	over, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		if in.first(over) {
			cancel()
		}
	}()
	defer func() { close(over); <-watched; cancel() }()
	lines := json.NewEncoder(a.env.Stdout)
	lines.SetEscapeHTML(false)
	for e, err := range cl.TaskEvents(ctx, id, 0) {
		if ctx.Err() != nil {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if !a.opt.JSON {
			p.event(e)
		} else if err := lines.Encode(e); err != nil {
			return false, api.Errorf(api.KindInternal, "write the answer: %w", err)
		}
	}
	return ctx.Err() == nil, nil
}

// detached says where a task that was only started can be followed.
func (a *app) detached(t api.Task) error {
	if a.opt.JSON {
		return a.json(t)
	}
	if _, err := fmt.Fprintln(a.env.Stdout, clean(string(t.ID))); err != nil {
		return api.Errorf(api.KindInternal, "write the answer: %w", err)
	}
	id := t.ID.Short()
	a.note("task %s runs in the background: hortus task watch %[1]s follows it, hortus task cancel %[1]s stops it", id)
	return nil
}

// runningEvery is how often a gate that takes long is mentioned where there is no terminal.
const runningEvery = 30 * time.Second

// running shows the last line of a gate that runs.
func (p *progress) running(s api.RepoStepEvent) {
	line := shorten(s.Line, 120)
	if took, due := p.refresh(s.Step+": "+line, runningEvery); due {
		p.step(s.Step, s.Round, dim, "runs for "+showDuration(took.Truncate(time.Second))+": "+line)
	}
}
