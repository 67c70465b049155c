package cli

import (
	"path/filepath"

	"hortus.dev/api"
	"hortus.dev/internal/repository/git/checkout"
)

type taskDeliverCmd struct {
	ID string `arg:"" complete:"tasks" help:"Task: a unique beginning of its id, or last for the newest."`
	deliveryFlags
}

// Help tells what the first lines of help do not.
func (taskDeliverCmd) Help() string {
	return "Without --push and --mr it is what the task was asked for. The branch policy is asked again; " +
		"what an earlier delivery did is found there and not done twice."
}

// Run delivers the result of a verified task.
func (c *taskDeliverCmd) Run(ctx runContext, a *app) error {
	// The daemon must have the tokens that are set here.
	a.forges = true
	cl, t, err := a.repoTask(ctx, c.ID)
	if err != nil {
		return err
	}
	asked := *t.Create.Repo
	push, request := c.Push || c.MR, c.MR
	if !push {
		push, request = asked.Push || asked.MergeRequest, asked.MergeRequest
	}
	// What was asked for at first needs not be said again.
	if err := (&deliveryFlags{Push: push, MR: request, Draft: c.Draft, Target: c.Target, Remote: c.Remote}).delivers(); err != nil {
		return err
	}
	req := api.DeliverTask{Push: push, MergeRequest: request, Draft: c.Draft || request && asked.Draft, Target: c.Target}
	if push && (c.Remote != "" || asked.Remote == "") {
		var tree checkout.Info
		g := a.person()
		if filepath.IsAbs(asked.URL) {
			if tree, err = g.Toplevel(ctx, asked.URL); err != nil {
				return err
			}
		}
		if req.Remote, err = c.remote(ctx, a, g, tree); err != nil {
			return err
		}
	}
	if t, err = cl.DeliverTask(ctx, t.ID, req); err != nil {
		return err
	}
	if t.Repo == nil {
		return api.Errorf(api.KindInternal, "the daemon answers with no result of task %s", t.ID)
	}
	if a.opt.JSON {
		err = a.json(t)
	} else {
		err = a.showResult(*t.Repo)
	}
	if err != nil {
		return err
	}
	p := newProgress(a.env, a.opt.Quiet, t.ID)
	defer p.close()
	p.delivery(t)
	if !delivered(t, request) {
		return exitCode(1)
	}
	return nil
}
