package repo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/repository/git/cache"
	"hortus.dev/internal/task/best"
)

// group is the work of all candidates of a task.
type group struct {
	candidates *best.Candidates
	main       *attempt
	all        []*candidate
	// forks has space for one: a workspace is forked by one candidate at a time.
	forks chan struct{}
}

// best lets several candidates work on the task and takes the result of the best one.
func (w *project) best(ctx context.Context, main *attempt, job Job) End {
	if err := main.before(ctx); err != nil {
		return main.broken(ctx, err)
	}
	if end, stops := main.cannotStart(ctx); stops {
		return end
	}
	leave, err := w.serveOnce(ctx, len(job.Candidates), main.steps.closed)
	if err != nil {
		return main.broken(ctx, err)
	}
	defer leave(ctx)
	f := &group{main: main, forks: make(chan struct{}, 1)}
	req := *w.req.Best
	req.Vary = nil
	for _, one := range job.Candidates {
		req.Vary = append(req.Vary, one.Variant)
	}
	f.candidates = best.New(best.Config{
		Task: w.task.ID, Request: req, AtOnce: w.cfg.Candidates, Logger: w.cfg.Logger,
		Enter: func(row *api.Candidate) best.Candidate {
			row.Workspace = string(w.named(row.N))
			e := f.newCandidate(*row, job)
			f.all = append(f.all, e)
			return e
		},
		Store: func(ctx context.Context, rows []api.Candidate) error {
			main.res.Candidates = rows
			return main.save(ctx)
		},
		Tell: func(ctx context.Context, row api.Candidate) { main.steps.tell(ctx, api.EventCandidate, row) },
		More: func() bool { return w.timeLeft(main.journal.Now()) },
		// If another daemon is to continue the task, each candidate ends its step and stops by itself.
		Damaged: func() bool { return main.journal.Damage() != nil && !main.journal.Left() },
	})
	f.candidates.Run(ctx)
	if main.journal.Damage() != nil {
		// Perhaps another daemon works on the task now: nothing is removed.
		return End{Outcome: api.OutcomeLost}
	}
	return f.decide(ctx)
}

// serveOnce has the services of the setup started once for candidates that the loop works for, until leave is called.
func (w *project) serveOnce(ctx context.Context, of int, closed func(int)) (leave func(context.Context), err error) {
	p := Preparation{Sandbox: w.prepared.Into(w.sandbox()), Layers: (&agentSpec{}).layers(w), Services: w.prepared.Services, Of: of}
	p.Access, err = w.access(ctx)
	return prepareServices(w.cfg.Sandboxes, w.task.ID, p, closed), err
}

// named is the workspace of a candidate in the row of a task that continues.
func (w *project) named(n int) api.WorkspaceID {
	if t := w.task.Repo; t != nil && n <= len(t.Candidates) {
		return api.WorkspaceID(t.Candidates[n-1].Workspace)
	}
	return ""
}

// timeLeft reports whether some of the task's time is left.
func (w *project) timeLeft(now time.Time) bool {
	ms := w.req.Budget.WallMS
	return ms == 0 || now.Sub(w.task.CreatedAt).Milliseconds() < ms
}

// compareTime is how long new comparisons of candidates begin.
const compareTime = 10 * time.Minute

// decide makes the result of the best candidate that of the task, and removes the others.
func (f *group) decide(ctx context.Context) End {
	w := f.main
	if !w.project.members.several() {
		if err := f.candidates.Lint(ctx, w.project.members[0].lint); err != nil {
			w.project.cfg.Logger.Error("run the lint command on candidates", "task", w.project.task.ID, "err", err)
		}
	}
	until := w.project.cfg.Now().Add(compareTime)
	if err := f.candidates.Compare(ctx, func() bool { return w.project.cfg.Now().Before(until) }); err != nil {
		w.project.cfg.Logger.Error("compare the candidates", "task", w.project.task.ID, "err", err)
	}
	// What was done is not lost because time is up, or because a person stopped the rest.
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*endTimeout)
	defer cancel()
	if err := w.keep(late, "choice", f.promote); err != nil {
		if w.journal.Damage() == nil {
			f.giveUp(late)
		}
		return w.broken(ctx, err)
	}
	f.discard(late)
	win := f.all[0]
	for _, r := range w.res.Candidates {
		if r.Chosen {
			win = f.all[r.N-1]
		}
	}
	end := win.end
	if end.Receipt = nil; end.OldOnly { // none is better, or it was not chosen
		end = End{Outcome: api.OutcomeVerified, Value: end.Value}
	}
	walled := errors.Is(context.Cause(ctx), errWall)
	if ctx.Err() != nil && !(walled && end.Outcome == api.OutcomeVerified) {
		return w.broken(ctx, ctx.Err())
	}
	if end.Outcome == api.OutcomeVerified {
		at := ctx
		if walled {
			at = late
		}
		if err := w.keep(at, DeliverStep, w.deliver); err != nil {
			return w.broken(at, err)
		}
		return end
	}
	if end.Diagnosis != "" {
		levels := ""
		if n := w.res.Candidates[len(f.all)-1].Level; n > 1 {
			levels = fmt.Sprintf(" on %d levels", n)
		}
		end.Diagnosis = fmt.Sprintf("None of %d candidates%s passed. The best one is candidate %d: %s", len(f.all), levels, win.n, end.Diagnosis)
	}
	return end
}

// promote chooses. What it does may be done again.
func (f *group) promote(ctx context.Context) error {
	w := f.main
	win := f.all[f.candidates.Choose()-1]
	branch := w.res.Branch
	w.res, w.collected = win.attempt.res, win.attempt.collected
	if w.res.Branch = branch; win.end.OldOnly {
		w.res.Rounds = concede(w.res.Rounds)
	}
	if err := w.point(ctx, branch); err != nil {
		return err
	}
	if err := publish(win.attempt.dir, w.dir); err != nil {
		return err
	}
	w.usage = api.Usage{}
	for _, e := range f.all {
		w.usage = w.usage.Add(e.attempt.usage)
		r := e.attempt.steps.receipt()
		w.steps.note(ofCandidate(e.n, r.Completed), ofCandidate(e.n, r.Skipped))
		w.steps.closed(r.ProcessesLeft)
	}
	return f.candidates.Save(ctx)
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
	if err := w.project.repo.SetBranch(ctx, branch, w.res.Head); err != nil {
		return err
	}
	for i, m := range w.project.members {
		if i < len(w.res.Repositories) && w.res.Repositories[i].Head != "" {
			if err := m.repo.SetBranch(ctx, branch, w.res.Repositories[i].Head); err != nil {
				return err
			}
		}
	}
	return nil
}

// publish makes the files of a chosen candidate those of its task: the outputs of its gates and its transcript, which
// stay its own too. It may be called again.
func publish(from, to string) error {
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		at := filepath.Join(to, rel)
		switch {
		case d.IsDir():
			return os.MkdirAll(at, 0o700)
		case !d.Type().IsRegular():
			return nil
		}
		if err := os.Remove(at); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return os.Link(path, at)
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return api.Errorf(api.KindInternal, "keep the outputs of the chosen candidate: %w", err)
	}
	return nil
}

// giveUp keeps the files of the chosen one, which could not be made the result, and removes the others.
func (f *group) giveUp(ctx context.Context) {
	f.main.res.Candidates = f.candidates.Rows()
	for _, r := range f.main.res.Candidates {
		if r.Chosen {
			f.main.res.Workspace = api.WorkspaceID(r.Workspace)
		}
	}
	f.discard(ctx)
}

// discard removes what the candidates had, but the workspace of the chosen one. It may be done again.
func (f *group) discard(ctx context.Context) {
	w := f.main
	rows := w.res.Candidates
	w.project.discard(ctx, rows)
	if err := f.candidates.Store(ctx, rows); err != nil {
		w.project.cfg.Logger.Error("store the candidates of a task", "task", w.project.task.ID, "err", err)
	}
	if w.journal.Remembers() {
		return
	}
	for _, r := range rows {
		w.steps.tell(ctx, api.EventCandidate, r)
	}
}

// discard removes the branches of candidates, and the workspaces of those that were not chosen, from the rows too.
func (w *project) discard(ctx context.Context, rows []api.Candidate) {
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
			errs = append(errs, w.cfg.Sandboxes.Discard(ctx, api.WorkspaceID(r.Workspace)))
		}
		if err := errors.Join(errs...); err != nil {
			w.cfg.Logger.Error("remove what a candidate had", "task", w.task.ID, "candidate", r.N, "err", err)
			continue
		}
		r.Workspace = ""
	}
}
