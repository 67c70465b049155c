package repo

import (
	"cmp"
	"context"

	"hortus.dev/api"
	"hortus.dev/internal/repository/filerule"
	"hortus.dev/internal/repository/git/cache"
	"hortus.dev/internal/task/journal"
)

// project is what a task works on: its repositories at their commits, and what is prepared for all who work on them.
// It does not change after its preparation.
type project struct {
	*Runner
	// ledger and Journal are those of the task.
	*steps
	*journal.Run
	task    api.Task
	req     api.RepoTask
	earlier []EarlierTask
	turn    *Turn // nil if the task is no turn of a session
	dir     string
	known   func(ctx context.Context, round int, output string) []api.KnownFix // nil for none
	// members are the repositories. repo and base are the only one and its commit, or all of
	// them combined.
	members repositories
	repo    *cache.Repo
	base    cache.Commit
	// files says which files are off limits and which the agent may not change.
	files *filerule.Policy
	// prepared is the result of the setups.
	prepared SetupResult
	// logs names the outputs of setups.
	logs logs
	// release releases the layers.
	release []func()
}

// newProject begins the project of a job.
func (r *Runner) newProject(job Job) *project {
	return &project{
		Runner: r, steps: newSteps(job.Emit, r.cfg.Now), Run: cmp.Or(job.Run, journal.None(r.cfg.Now)),
		task: job.Task, req: *job.Task.Create.Repo, earlier: job.Earlier, turn: job.Turn, dir: job.Dir, known: job.Known,
	}
}

// attempt begins an attempt with the result that a task has so far.
func (p *project) attempt(res api.RepoResult, store func(context.Context, api.RepoResult) error) *attempt {
	a := &attempt{project: p, steps: p.steps, Run: p.Run, dir: p.dir, store: store, res: res, slot: newSandboxSlot(p.files)}
	a.gates, a.copies = &gates{of: a}, a.newCopies(p.copied(0))
	return a
}

// offLimits counts the files of the bases that are off limits.
func (p *project) offLimits() (n int) {
	for _, m := range p.members {
		n += m.offLimits
	}
	return n
}

// results are the parts of a result, one for each of several repositories; nil for one.
func (p *project) results() (out []api.RepositoryResult) {
	if !p.members.several() {
		return nil
	}
	for _, m := range p.members {
		out = append(out, api.RepositoryResult{Name: m.Name, Commit: m.base.Hash, Base: m.base.Branch})
	}
	return out
}
