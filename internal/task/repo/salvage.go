package repo

import (
	"cmp"
	"context"
	"slices"

	"hortus.dev/api"
	"hortus.dev/internal/task/best"
)

// Salvage commits what a task had written whose daemon died in the middle. Its
// sandboxes must have ended. What cannot be committed stays in the workspace.
func (r *Runner) Salvage(ctx context.Context, t api.Task) api.RepoResult {
	res := *t.Repo
	if len(res.Candidates) > 0 && res.Commit != "" && slices.ContainsFunc(res.Candidates, func(c api.Candidate) bool { return c.Workspace != "" }) {
		res = r.salvageBest(ctx, t)
		t.Repo = &res
	}
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

// untouched reports whether a task that goes on has ended before it came to the workspaces that its row names.
func (w *attempt) untouched() bool {
	was := w.task.Repo
	if was == nil || w.turn != nil || w.res.Workspace != "" || w.res.Candidates != nil {
		return false
	}
	return was.Workspace != "" || slices.ContainsFunc(was.Candidates, func(c api.Candidate) bool { return c.Workspace != "" })
}

// salvageBest takes the work of the best candidate, as far as is known, of a task that was lost before it chose, and removes
// the others.
func (r *Runner) salvageBest(ctx context.Context, t api.Task) api.RepoResult {
	res := *t.Repo
	res.Candidates = slices.Clone(res.Candidates)
	p := r.newProject(Job{Task: t})
	if err := p.recall(ctx, res); err != nil {
		r.cfg.Logger.Error("cannot commit the work of a lost task; keeping its workspaces", "task", t.ID, "err", err)
		return res
	}
	scores := make([]best.Score, len(res.Candidates))
	for i, c := range res.Candidates {
		scores[i] = best.ScoreOf(c)
		scores[i].Changed = c.Workspace != "" // what it has written is not known
	}
	chosen := slices.ContainsFunc(res.Candidates, func(c api.Candidate) bool { return c.Chosen })
	for i, o := range best.Rank(scores) {
		c := &res.Candidates[o.N-1]
		if !chosen {
			c.Chosen = i == 0
		}
		if c.Chosen && c.Workspace != "" {
			res.Workspace = api.WorkspaceID(c.Workspace)
		}
		c.State, c.Why = api.CandidateEnded, cmp.Or(c.Why, "the task was lost")
	}
	p.discard(ctx, res.Candidates)
	return res
}
