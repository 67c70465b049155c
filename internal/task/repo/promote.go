package repo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"hortus.dev/api"
	"hortus.dev/api/best"
	"hortus.dev/internal/repository/git/cache"
	"hortus.dev/internal/task/choice"
	"hortus.dev/internal/task/evidence"
	"hortus.dev/internal/task/gate"
	"hortus.dev/internal/task/gate/report"
)

// decide makes the result of the best candidate that of the task, and removes the others.
func (c *contest) decide(ctx context.Context) End {
	w := c.main
	if err := c.lint(ctx); err != nil {
		w.cfg.Logger.Error("run the lint command on candidates", "task", w.task.ID, "err", err)
	}
	// What was done is not lost because time is up, or because a person stopped the rest.
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*endTimeout)
	defer cancel()
	if err := w.keep(late, "choice", c.promote); err != nil {
		if w.Damage() == nil {
			c.giveUp(late)
		}
		return w.broken(ctx, err)
	}
	c.discard(late)
	win := c.all[0]
	for _, r := range w.res.Candidates {
		if r.Chosen {
			win = c.all[r.N-1]
		}
	}
	end := win.end
	end.Receipt = nil
	walled := errors.Is(context.Cause(ctx), errWall)
	if ctx.Err() != nil && !(walled && end.Outcome == api.OutcomeVerified) {
		return w.broken(ctx, ctx.Err())
	}
	if end.Outcome == api.OutcomeVerified {
		at := ctx
		if walled {
			at = late
		}
		if err := w.keep(at, "deliver", w.deliver); err != nil {
			return w.broken(at, err)
		}
		return end
	}
	if end.Diagnosis != "" {
		end.Diagnosis = fmt.Sprintf("None of %d candidates passed. The best one is candidate %d: %s", len(c.all), win.n, end.Diagnosis)
	}
	return end
}

// giveUp keeps the files of the chosen one, which could not be made the result, and removes the others.
func (c *contest) giveUp(ctx context.Context) {
	c.mu.Lock()
	c.main.res.Candidates = slices.Clone(c.rows)
	for _, r := range c.rows {
		if r.Chosen {
			c.main.res.Workspace = api.WorkspaceID(r.Workspace)
		}
	}
	c.mu.Unlock()
	c.discard(ctx)
}

// lint runs the lint command of the repository on the candidates that passed, if there are several: it decides between
// them only.
func (c *contest) lint(ctx context.Context) error {
	var passed []*entrant
	for _, e := range c.all {
		if e.end.Outcome == api.OutcomeVerified {
			passed = append(passed, e)
		}
	}
	if len(passed) < 2 || c.main.members.several() || ctx.Err() != nil {
		return nil
	}
	command, err := c.main.members[0].lint(ctx)
	if err != nil || command == "" {
		return err
	}
	errs := make([]error, len(passed))
	var wg sync.WaitGroup
	for i, e := range passed {
		wg.Go(func() {
			c.turns <- struct{}{}
			defer func() { <-c.turns }()
			g, err := e.linted(ctx, command)
			if err := e.Damage(); err != nil {
				c.main.Spoil(err)
			}
			if errs[i] = err; err != nil {
				return
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.rows[e.n-1].Lint = "failed"; g.Passed {
				c.rows[e.n-1].Lint = "passed"
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// linted runs a lint command on the result of a candidate, in a clean sandbox.
func (e *entrant) linted(ctx context.Context, lint string) (api.Gate, error) {
	changes, err := e.changed(ctx, e.res.Head)
	if err != nil {
		return api.Gate{}, err
	}
	// What says how to lint is as it was before the work.
	changes = slices.DeleteFunc(changes, func(c cache.Change) bool { return gate.SaysLint(c.Path) })
	j := &judge{of: e.attempt, commands: []*evidence.Command{{Text: lint, Plan: report.Plain(lint)}}}
	return j.over(ctx, api.RepoStepEvent{Step: "lint", Detail: lint}, "lint", changes, terms{})
}

// promote chooses. What it does may be done again.
func (c *contest) promote(ctx context.Context) error {
	w := c.main
	c.mu.Lock()
	defer c.mu.Unlock()
	scores := make([]choice.Score, len(c.rows))
	for i, r := range c.rows {
		scores[i] = scoreOf(r)
	}
	order := choice.Rank(scores)
	for i, o := range order {
		r := &c.rows[o.N-1]
		r.Chosen = i == 0
		switch {
		case r.Why == "" || r.Chosen || r.Passed:
			r.Why = o.Why
		case !order[0].Passed: // it did not lose by its gate
			r.Why = o.Why + ". " + r.Why
		}
	}
	win := c.all[order[0].N-1]
	branch := w.res.Branch
	w.res, w.collected = win.res, win.collected
	w.res.Branch = branch
	if err := w.point(ctx, branch); err != nil {
		return err
	}
	if err := publish(win.dir, w.dir); err != nil {
		return err
	}
	w.usage = api.Usage{}
	for _, e := range c.all {
		w.usage = w.usage.Add(e.usage)
		r := e.Receipt()
		w.Note(ofCandidate(e.n, r.Completed), ofCandidate(e.n, r.Skipped))
		w.Closed(r.ProcessesLeft)
	}
	return c.store(ctx)
}

// ofCandidate are steps of a candidate in the receipt of the task.
func ofCandidate(n int, steps []string) (out []string) {
	for _, s := range steps {
		out = append(out, fmt.Sprintf("candidate %d: %s", n, s))
	}
	return out
}

// point points a branch to the result, in each repository that it changed.
func (w *attempt) point(ctx context.Context, branch string) error {
	if w.res.Head == "" {
		return nil
	}
	if err := w.repo.SetBranch(ctx, branch, w.res.Head); err != nil {
		return err
	}
	for i, m := range w.members {
		if i < len(w.res.Repositories) && w.res.Repositories[i].Head != "" {
			if err := m.repo.SetBranch(ctx, branch, w.res.Repositories[i].Head); err != nil {
				return err
			}
		}
	}
	return nil
}

// discard removes what the candidates had, but the workspace of the chosen one. It may be done again.
func (c *contest) discard(ctx context.Context) {
	c.mu.Lock()
	c.rows = c.main.res.Candidates
	c.mu.Unlock()
	c.main.discard(ctx, c.rows)
	c.mu.Lock()
	err := c.store(ctx)
	c.mu.Unlock()
	if err != nil {
		c.main.cfg.Logger.Error("store the candidates of a task", "task", c.main.task.ID, "err", err)
	}
	if c.main.Rec.Remembers() {
		return
	}
	for _, r := range c.rows {
		c.main.Tell(ctx, api.EventCandidate, r)
	}
}

// discard removes the branches of candidates, and the workspaces of those that were not chosen, from the rows too.
func (w *attempt) discard(ctx context.Context, rows []best.Candidate) {
	repos := []*cache.Repo{w.repo}
	if w.members.several() {
		for _, m := range w.members {
			repos = append(repos, m.repo)
		}
	}
	for i := range rows {
		r := &rows[i]
		var errs []error
		for _, one := range repos {
			errs = append(errs, one.SetBranch(ctx, candidateBranch(w.task.ID, r.N), ""))
		}
		if !r.Chosen && r.Workspace != "" {
			errs = append(errs, w.cfg.Computers.Discard(ctx, api.WorkspaceID(r.Workspace)))
		}
		if err := errors.Join(errs...); err != nil {
			w.cfg.Logger.Error("remove what a candidate had", "task", w.task.ID, "candidate", r.N, "err", err)
			continue
		}
		r.Workspace = ""
	}
}
