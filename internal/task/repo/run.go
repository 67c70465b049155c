package repo

import (
	"context"
	"runtime/debug"

	"hortus.dev/api"
)

// historyDepth is how many commits an agent can look back on.
const historyDepth = 100

// run is the whole of a task. Whatever happens, what the agent left is committed.
func (w *attempt) run(ctx context.Context, job Job) (end End) {
	defer func() {
		if v := recover(); v != nil {
			w.cfg.Logger.Error("task panicked", "task", w.task.ID, "panic", v, "stack", string(debug.Stack()))
			end = failed(api.Errorf(api.KindInternal, "internal error: %v", v))
		}
		end = w.finish(ctx, end)
		w.letGo()
		for _, release := range w.release {
			release()
		}
	}()
	if err := w.prepare(ctx); err != nil {
		return w.broken(ctx, err)
	}
	if w.req.PrepareOnly {
		return End{Outcome: api.OutcomeVerified}
	}
	if w.turn != nil {
		return w.converse(ctx)
	}
	if w.req.Best != nil {
		return w.contest(ctx, w, job)
	}
	if err := w.before(ctx); err != nil {
		return w.broken(ctx, err)
	}
	return w.rounds(ctx)
}

// prepare brings everything to where the agent can begin.
func (w *attempt) prepare(ctx context.Context) error {
	if err := w.each(ctx, func(ctx context.Context, m *repository) error { return m.fetched(ctx) }); err != nil {
		return err
	}
	if err := w.meet(ctx); err != nil {
		return err
	}
	w.res.Commit, w.res.Base, w.res.Repositories = w.base.Hash, w.base.Branch, w.results()
	if err := w.save(ctx); err != nil {
		return err
	}
	if !w.req.PrepareOnly {
		if err := w.gates.findGate(ctx); err != nil {
			return err
		}
	}
	if err := w.each(ctx, func(ctx context.Context, m *repository) error { return m.checkout(ctx) }); err != nil {
		return err
	}
	w.res.OffLimits = w.offLimits()
	if err := w.save(ctx); err != nil {
		return err
	}
	if err := w.each(ctx, func(ctx context.Context, m *repository) error { return m.ready(ctx) }); err != nil {
		return err
	}
	w.project.prepared = w.members.together(nil)
	if w.req.Best != nil {
		return nil // each candidate has files of its own
	}
	if err := w.install(ctx); err != nil || w.req.PrepareOnly {
		return err
	}
	return w.keep(ctx, "workspace", w.place)
}

// workspace makes the durable files of the agent, or takes those of the task that is continued.
func (w *attempt) workspace(ctx context.Context) (err error) {
	if before := w.last(); before != nil {
		w.res.Workspace = before.Workspace
		return w.save(ctx)
	}
	if name := w.req.Workspace; name != "" {
		err = w.do(ctx, api.RepoStepEvent{Step: "workspace", Detail: name}, func() (string, error) {
			w.res.Workspace, err = w.cfg.Sandboxes.Attach(ctx, w.task.ID, name, w.spec.layers(w.project)...)
			return name, err
		})
	} else if t := w.turn; t != nil && w.cfg.Sessions != nil {
		w.res.Workspace, err = w.cfg.Sessions.Workspace(ctx, t.Session, w.spec.layers(w.project)...)
	} else {
		w.res.Workspace, err = w.cfg.Sandboxes.Workspace(ctx, w.task.ID, w.spec.layers(w.project)...)
	}
	if err != nil {
		return err
	}
	return w.save(ctx)
}
