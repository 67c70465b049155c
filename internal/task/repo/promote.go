package repo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"hortus.dev/api"
	"hortus.dev/internal/repository/git/cache"
)

// promote chooses. What it does may be done again.
func (f *bestOf) promote(ctx context.Context) error {
	w := f.main
	win := f.all[f.Choose()-1]
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
	for _, e := range f.all {
		w.usage = w.usage.Add(e.usage)
		r := e.receipt()
		w.note(ofCandidate(e.n, r.Completed), ofCandidate(e.n, r.Skipped))
		w.closed(r.ProcessesLeft)
	}
	return f.Save(ctx)
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
func (f *bestOf) giveUp(ctx context.Context) {
	f.main.res.Candidates = f.Rows()
	for _, r := range f.main.res.Candidates {
		if r.Chosen {
			f.main.res.Workspace = api.WorkspaceID(r.Workspace)
		}
	}
	f.discard(ctx)
}

// discard removes what the candidates had, but the workspace of the chosen one. It may be done again.
func (f *bestOf) discard(ctx context.Context) {
	w := f.main
	rows := w.res.Candidates
	w.discard(ctx, rows)
	if err := f.Settle(ctx, rows); err != nil {
		w.cfg.Logger.Error("store the candidates of a task", "task", w.task.ID, "err", err)
	}
	if w.Run.Remembers() {
		return
	}
	for _, r := range rows {
		w.tell(ctx, api.EventCandidate, r)
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
