package task

import (
	"context"
	"path/filepath"

	"hortus.dev/api"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/task/view"
	"hortus.dev/internal/repository/git/checkout"
)

type taskDeliverCmd struct {
	ID string `arg:"" complete:"tasks" help:"Task ID, a unique prefix of it, or last for the newest task."`
	deliveryFlags
}

// Help returns what the first lines of help do not.
func (taskDeliverCmd) Help() string {
	return "Without --push and --mr the task's own delivery options are used. The branch policy is checked again. " +
		"Repeating a delivery is safe: an existing branch or merge request is not created twice."
}

// Run delivers the result of a verified task.
func (c *taskDeliverCmd) Run(ctx app.Context, a *app.App) error {
	// The daemon must have the tokens that are set here.
	a.NeedForges = true
	cl, t, err := repoTask(ctx, a, c.ID)
	if err != nil {
		return err
	}
	asked := *t.Create.Repo
	push, request := c.Push || c.MR, c.MR
	if !push {
		push, request = asked.Push || asked.MergeRequest, asked.MergeRequest
	}
	// What was requested at first needs not be said again.
	if err := (&deliveryFlags{Push: push, MR: request, Draft: c.Draft, Target: c.Target, Remote: c.Remote}).delivers(); err != nil {
		return err
	}
	req := api.DeliverTask{Push: push, MergeRequest: request, Draft: c.Draft || request && asked.Draft, Target: c.Target}
	if push && len(asked.Also) > 0 {
		if req.Remotes, err = c.remotes(ctx, a, asked); err != nil {
			return err
		}
	} else if push && (c.Remote != "" || asked.Remote == "") {
		var tree checkout.Info
		g := person(a)
		if filepath.IsAbs(asked.URL) {
			if tree, err = g.Toplevel(ctx, asked.URL); err != nil {
				return err
			}
		}
		if req.Remote, err = c.remote(ctx, a, g, tree); err != nil {
			return err
		}
	}
	if t, err = cl.Tasks.Deliver(ctx, t.ID, req); err != nil {
		return err
	}
	if t.Repo == nil {
		return api.Errorf(api.KindInternal, "the daemon returned no result of task %s", t.ID)
	}
	if a.Flags.JSON {
		err = a.JSON(t)
	} else {
		err = showResult(a, *t.Repo)
	}
	if err != nil {
		return err
	}
	p := view.NewProgress(a.Env, a.Flags.Quiet, t.ID)
	defer p.Close()
	p.Delivery(t)
	if !view.Delivered(t, request) {
		return app.ExitCode(1)
	}
	return nil
}

// remotes are where several repositories are pushed to that have no remote yet.
func (c *taskDeliverCmd) remotes(ctx context.Context, a *app.App, asked api.RepoTask) (map[string]string, error) {
	if c.Remote != "" {
		return nil, api.Errorf(api.KindInvalid, "--remote cannot be used with several repositories").WithHint("each is pushed to the origin of its checkout, or to its URL")
	}
	out := map[string]string{}
	g := person(a)
	for _, r := range asked.All() {
		if r.Remote != "" || !filepath.IsAbs(r.URL) {
			continue
		}
		tree, err := g.Toplevel(ctx, r.URL)
		if err != nil {
			return nil, err
		}
		if out[r.Name], err = (&deliveryFlags{}).remote(ctx, a, g, tree); err != nil {
			return nil, err
		}
	}
	return out, nil
}
