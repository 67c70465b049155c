package repo

import (
	"context"

	"hortus.dev/api"
)

// Salvage commits what a task had written whose daemon died in the middle. Its
// sandboxes must have ended. What cannot be committed stays in the workspace.
func (r *Runner) Salvage(ctx context.Context, t api.Task) api.RepoResult {
	res := *t.Repo
	if res.Workspace == "" || res.Commit == "" {
		return res
	}
	p := r.newProject(Job{Task: t})
	w := p.attempt(res, func(context.Context, api.RepoResult) error { return nil })
	err := p.recall(ctx, res)
	if err == nil {
		_, err = w.collect(ctx, len(res.Rounds), true)
	}
	if err != nil {
		r.cfg.Logger.Error("cannot commit the work of a lost task; keeping its workspace", "task", t.ID, "workspace", res.Workspace, "err", err)
		return res
	}
	w.res.Partial = w.res.Head != ""
	return w.res
}
