package task

import (
	"context"
	"encoding/json"
	"fmt"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/human"
	"hortus.dev/internal/cli/task/view"
	"hortus.dev/internal/cli/terminal"
)

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
	ended, err := watch(ctx, a, cl, t.ID, p)
	p.Close()
	if err != nil {
		return err
	}
	if !ended {
		a.Note("the task keeps running. To follow it: hortus task watch %s. To stop it: hortus task cancel %[1]s", t.ID.Short())
		return app.ExitCode(130)
	}
	if t, err = cl.Tasks.Get(ctx, string(t.ID)); err != nil {
		return err
	}
	if a.Flags.JSON { // the last event has the result
		return outcome(t)
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
		if !a.Flags.JSON {
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
