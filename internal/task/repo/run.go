package repo

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"hortus.dev/api"
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
	if w.job.Turn != nil {
		return talk{w}.rounds(ctx)
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
	if end.Outcome == api.OutcomeVerified || end.Outcome == api.OutcomeAnswered || w.res.Workspace == "" {
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
		w.note(&w.skipped, name(e))
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
		w.note(&w.skipped, name(e))
	} else {
		w.note(&w.done, name(e))
	}
	w.job.Emit.Emit(ctx, api.EventRepoStep, e)
	return err
}

// name is a step as the receipt has it.
func name(e api.RepoStepEvent) string {
	s := e.Step
	if e.Repository != "" {
		s += " of " + e.Repository
	}
	if e.Round > 0 {
		s += fmt.Sprintf(", round %d", e.Round)
	}
	return s
}

// note adds the name of a step to a list of the receipt. Steps of several repositories end side by side.
func (w *work) note(list *[]string, name string) {
	w.steps.Lock()
	defer w.steps.Unlock()
	*list = append(*list, name)
}

// prepare brings everything to where the agent can begin.
func (w *work) prepare(ctx context.Context) error {
	if err := w.each(ctx, func(ctx context.Context, m *member) error { return m.fetched(ctx) }); err != nil {
		return err
	}
	if err := w.meet(ctx); err != nil {
		return err
	}
	w.res.Commit, w.res.Base = w.base.Hash, w.base.Branch
	if err := w.save(ctx); err != nil {
		return err
	}
	if !w.req.PrepareOnly {
		if err := w.judge().findGate(ctx); err != nil {
			return err
		}
	}
	if err := w.each(ctx, func(ctx context.Context, m *member) error { return m.checkout(ctx) }); err != nil {
		return err
	}
	for _, m := range w.members {
		w.res.OffLimits += m.offLimits
	}
	if err := w.save(ctx); err != nil {
		return err
	}
	if err := w.each(ctx, func(ctx context.Context, m *member) error { return m.ready(ctx) }); err != nil {
		return err
	}
	w.prepared = w.members.together(nil)
	if err := (hired{w}).install(ctx); err != nil || w.req.PrepareOnly {
		return err
	}
	return pastOf(w).keep(ctx, "workspace", pastOf(w).place)
}

// workspace makes the durable files of the agent, or takes those of the task that is continued.
func (w *work) workspace(ctx context.Context) (err error) {
	if before := w.last(); before != nil {
		w.res.Workspace = before.Workspace
		return w.save(ctx)
	}
	if name := w.req.Workspace; name != "" {
		err = w.step(ctx, api.RepoStepEvent{Step: "workspace", Detail: name}, func() (string, error) {
			w.res.Workspace, err = w.cfg.Computers.Attach(ctx, w.job.Task.ID, name, hired{w}.layers()...)
			return name, err
		})
	} else if t := w.job.Turn; t != nil && w.cfg.Sessions != nil {
		w.res.Workspace, err = w.cfg.Sessions.Workspace(ctx, t.Session, hired{w}.layers()...)
	} else {
		w.res.Workspace, err = w.cfg.Computers.Workspace(ctx, w.job.Task.ID, hired{w}.layers()...)
	}
	if err != nil {
		return err
	}
	return w.save(ctx)
}

func (w *work) save(ctx context.Context) error {
	if w.job.Run.Remembers() {
		return nil // more is stored already
	}
	return w.job.Save(context.WithoutCancel(ctx), w.res)
}
