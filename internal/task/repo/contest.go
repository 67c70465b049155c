package repo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/task/best"
)

// field is the work of all candidates of a task.
type bestOf struct {
	*best.Candidates
	main *attempt
	all  []*candidate
	// forks has room for one: a workspace is forked by one candidate at a time.
	forks chan struct{}
}

// contest lets several candidates work on the task and takes the result of the best one.
func (w *project) contest(ctx context.Context, main *attempt, job Job) End {
	if err := main.before(ctx); err != nil {
		return main.broken(ctx, err)
	}
	leave, err := w.serveOnce(ctx, len(job.Candidates), main.closed)
	if err != nil {
		return main.broken(ctx, err)
	}
	defer leave(ctx)
	f := &bestOf{main: main, forks: make(chan struct{}, 1)}
	req := *w.req.Best
	req.Vary = nil
	for _, one := range job.Candidates {
		req.Vary = append(req.Vary, one.Variant)
	}
	f.Candidates = best.New(best.Config{
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
		Tell:    func(ctx context.Context, row api.Candidate) { main.tell(ctx, api.EventCandidate, row) },
		More:    func() bool { return w.timeLeft(main.Run.Now()) },
		Damaged: func() bool { return main.Run.Damage() != nil },
	})
	f.Run(ctx)
	if main.Run.Damage() != nil {
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

// named is the workspace of a candidate in the row of a task that goes on.
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

// decide makes the result of the best candidate that of the task, and removes the others.
func (f *bestOf) decide(ctx context.Context) End {
	w := f.main
	if !w.members.several() {
		if err := f.Lint(ctx, w.members[0].lint); err != nil {
			w.cfg.Logger.Error("run the lint command on candidates", "task", w.task.ID, "err", err)
		}
	}
	// What was done is not lost because time is up, or because a person stopped the rest.
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*endTimeout)
	defer cancel()
	if err := w.keep(late, "choice", f.promote); err != nil {
		if w.Run.Damage() == nil {
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
		levels := ""
		if n := w.res.Candidates[len(f.all)-1].Level; n > 1 {
			levels = fmt.Sprintf(" on %d levels", n)
		}
		end.Diagnosis = fmt.Sprintf("None of %d candidates%s passed. The best one is candidate %d: %s", len(f.all), levels, win.n, end.Diagnosis)
	}
	return end
}
