package repo

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/repository/git"
	"hortus.dev/internal/repository/git/cache"
)

const (
	// gateGrace is how much longer than the agent's own time everything may take.
	gateGrace = time.Minute
	// endTimeout bounds what is done after a cancellation: ending what runs and
	// keeping what there is.
	endTimeout = 60 * time.Second
)

// historyDepth is how many commits an agent can look back on.
const historyDepth = 100

var errWall = errors.New("the wall-clock budget is exhausted")

// run is the whole of a task. Whatever happens, what the agent left is committed.
func (w *work) run(ctx context.Context) (end End) {
	defer func() {
		if v := recover(); v != nil {
			w.cfg.Logger.Error("task panicked", "task", w.job.Task.ID, "panic", v, "stack", string(debug.Stack()))
			end = failed(api.Errorf(api.KindInternal, "internal error: %v", v))
		}
		end = w.finish(ctx, end)
	}()
	if err := w.prepare(ctx); err != nil {
		return w.broken(ctx, err)
	}
	if w.req.PrepareOnly {
		return End{Outcome: api.OutcomeVerified}
	}
	return w.rounds(ctx)
}

// finish ends what still runs and keeps what there is.
func (w *work) finish(ctx context.Context, end End) End {
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	defer func() {
		for _, release := range w.release {
			release()
		}
	}()
	if err := w.vacate(late); err != nil {
		w.cfg.Logger.Error("a sandbox of a task was not killed", "task", w.job.Task.ID, "err", err)
		w.left++
		if end.Error == nil {
			end.Error = api.AsError(err)
		}
	}
	if end.Outcome == api.OutcomeVerified || w.res.Workspace == "" {
		return end
	}
	if w.kept() {
		w.res.Partial = w.res.Partial || end.Outcome != api.OutcomeNeedsHuman && w.res.Head != ""
		return end
	}
	if _, err := w.collect(late, len(w.res.Rounds), true); err != nil {
		w.cfg.Logger.Error("cannot commit partial work; keeping its workspace", "task", w.job.Task.ID, "workspace", w.res.Workspace, "err", err)
	} else if w.res.Head != "" {
		w.res.Partial = true
	}
	return end
}

// kept reports whether the newest round has been collected.
func (w *work) kept() bool {
	n := len(w.res.Rounds)
	return n > 0 && w.collected == n
}

// broken returns how a task ended that could not continue.
func (w *work) broken(ctx context.Context, err error) End {
	switch {
	case errors.Is(context.Cause(ctx), errWall):
		return End{Outcome: api.OutcomeNeedsHuman, Diagnosis: "The wall-clock budget was exhausted before the work was done.",
			Question: "Should the task get more time (--wall)?"}
	case ctx.Err() != nil:
		return End{Outcome: api.OutcomeCanceled}
	}
	return failed(err)
}

func failed(err error) End { return End{Outcome: api.OutcomeFailed, Error: api.AsError(err)} }

// step does one thing that people can see begin and end.
func (w *work) step(ctx context.Context, e api.RepoStepEvent, do func() (detail string, err error)) error {
	w.job.Emit.Emit(ctx, api.EventRepoStep, e)
	if err := ctx.Err(); err != nil {
		w.skipped = append(w.skipped, e.Step)
		return err
	}
	start := w.cfg.Now()
	detail, err := do()
	e.Done, e.MS = true, w.cfg.Now().Sub(start).Milliseconds()
	if detail != "" {
		e.Detail = detail
	}
	if err != nil {
		e.Error = err.Error()
		w.skipped = append(w.skipped, name(e))
	} else {
		w.done = append(w.done, name(e))
	}
	w.job.Emit.Emit(ctx, api.EventRepoStep, e)
	return err
}

// name is a step as the receipt has it.
func name(e api.RepoStepEvent) string {
	if e.Round > 0 {
		return fmt.Sprintf("%s, round %d", e.Step, e.Round)
	}
	return e.Step
}

// prepare brings everything to where the agent can begin.
func (w *work) prepare(ctx context.Context) error {
	err := w.step(ctx, api.RepoStepEvent{Step: "fetch", Detail: git.DisplayAddress(w.req.URL)}, func() (string, error) {
		src, err := w.cfg.Deliverer.Source(w.req.URL)
		if err != nil {
			return "", err
		}
		if w.repo, err = w.cfg.Git.Fetch(ctx, src, func(line string) {
			w.job.Emit.Emit(ctx, api.EventRepoStep, api.RepoStepEvent{Step: "fetch", Detail: line})
		}); err != nil {
			return "", err
		}
		if w.base, err = w.start(ctx); err != nil {
			return "", err
		}
		w.res.Commit, w.res.Base = w.base.Hash, w.base.Branch
		return fmt.Sprintf("%.10s %s", w.base.Hash, w.base.Subject), w.save(ctx)
	})
	if err != nil {
		return err
	}
	if !w.req.PrepareOnly {
		if err := w.judge().findGate(ctx); err != nil {
			return err
		}
	}
	if err := w.checkout(ctx); err != nil {
		return err
	}
	if err := w.setup(ctx); err != nil || w.req.PrepareOnly {
		return err
	}
	return w.workspace(ctx)
}

// checkout makes a layer of the commit.
func (w *work) checkout(ctx context.Context) error {
	return w.step(ctx, api.RepoStepEvent{Step: "checkout"}, func() (string, error) {
		var detail string
		key := "checkout 1 " + w.base.Hash + " " + checkoutBranch(w.base) + w.leftOut()
		layer, release, err := w.cfg.Computers.Layer(ctx, key, func(ctx context.Context, dir string) error {
			res, err := w.repo.Checkout(ctx, w.base.Hash, dir, cache.CheckoutOptions{Branch: checkoutBranch(w.base), Depth: historyDepth, Files: w.files})
			detail = fmt.Sprintf("%d files", res.Files)
			return err
		})
		if err != nil {
			return "", err
		}
		_, w.res.OffLimits, err = w.visible(ctx)
		if err != nil {
			return "", err
		}
		if n := w.res.OffLimits; n > 0 {
			detail = strings.TrimPrefix(fmt.Sprintf("%s, %d off limits", detail, n), ", ")
		}
		w.layer, w.release = layer, append(w.release, release)
		return detail, w.save(ctx)
	})
}

// workspace makes the durable files of the agent, or takes those of the task that is continued.
func (w *work) workspace(ctx context.Context) (err error) {
	if before := w.last(); before != nil {
		w.res.Workspace = before.Workspace
		return w.save(ctx)
	}
	if w.res.Workspace, err = w.cfg.Computers.Workspace(ctx, w.job.Task.ID, w.prepared.below(w.layer)...); err != nil {
		return err
	}
	return w.save(ctx)
}

// checkoutBranch is the branch that the agent finds itself on.
func checkoutBranch(c cache.Commit) string {
	if c.Branch != "" {
		return c.Branch
	}
	return "main"
}

func (w *work) save(ctx context.Context) error {
	return w.job.Save(context.WithoutCancel(ctx), w.res)
}
