package task

import (
	"context"
	"runtime/debug"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent"
	"hortus.dev/internal/task/lesson"
	"hortus.dev/internal/task/recall"
)

// storeTimeout bounds the writes that end a task.
const storeTimeout = 30 * time.Second

// run is the life of one task, from its start to its last event.
func (e *Engine) run(ctx context.Context, t api.Task, ms models, from source, r *running) {
	if t.Create.Repo != nil {
		worked(&t, e.repository(ctx, &t, ms, from, r))
		e.handBack(ctx, t, from.earlier)
	} else {
		journal := recall.New(r.run, r.told, e.cfg.Now)
		rep := lost(&t, journal, e.pipeline(ctx, &t, ms, from, r, journal))
		t.Outcome, t.Plan, t.Attempts = rep.Outcome, rep.Plan, rep.Attempts
		t.Diagnosis, t.Question = rep.Diagnosis, rep.Question
		t.Error, t.Usage, t.Receipt, t.Value = rep.Error, rep.Usage, rep.Receipt, rep.Value
	}
	e.advise(ctx, &t)
	if ms.recording != nil {
		// Before the task is done: anyone who waits for it finds the whole recording.
		if err := ms.recording.Close(); err != nil {
			e.cfg.Logger.Error("close recording", "task", t.ID, "err", err)
		}
	}
	t.State = api.TaskDone
	t.Calls = r.log.roleCalls()
	t.Lessons, t.LessonsBy = r.log.lessons()
	t.EndedAt = e.cfg.Now().UTC()
	// Before the task is done: whoever waits for it can use what it taught.
	newPupil(e.cfg, &t, r.log).learn(ctx, e.cfg.Repositories)
	if r.run == nil {
		e.finish(ctx, t, r.log)
		return
	}
	r.run.GoLive()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	if err := survivalOf(e).endRun(ctx, t, r.run, r.log); err != nil {
		// The row stays unfinished; the next daemon goes on with the task.
		e.cfg.Logger.Error("store the end of a task", "task", t.ID, "err", err)
	}
}

// bounds are the longest times of one pass.
type bounds struct{ install, run time.Duration }

// pipeline runs the roles. A defect in one of them ends this task alone.
func (e *Engine) pipeline(ctx context.Context, t *api.Task, ms models, from source, r *running, journal *recall.Journal) (rep agent.Report) {
	c, log := t.Create, journal.Facts(r.log)
	b := bounds{time.Duration(c.InstallTimeoutMS) * time.Millisecond, time.Duration(c.RunTimeoutMS) * time.Millisecond}
	schema, err := compiled(c.Schema)
	if err != nil {
		return agent.Report{Outcome: api.OutcomeFailed, Error: api.AsError(err)}
	}
	exec := agent.NewExecutor(agent.ExecutorConfig{
		Sandboxes: e.cfg.Sandboxes, Sandbox: t.Sandbox(), InstallTimeout: b.install, RunTimeout: b.run, Keep: c.Keep, Emit: log,
		Inputs: e.inputs(*t), Setup: c.SetupEgress, Schema: schema,
	})
	defer func() {
		if v := recover(); v != nil {
			e.cfg.Logger.Error("task panicked", "task", t.ID, "panic", v, "stack", string(debug.Stack()))
			rep = agent.Report{Outcome: api.OutcomeFailed, Error: api.Errorf(api.KindInternal, "internal error: %v", v)}
			if err := exec.Release(ctx); err != nil {
				e.cfg.Logger.Error("release sandbox after panic", "task", t.ID, "err", err)
			}
		}
	}()
	t.State = api.TaskRunning
	if err := e.cfg.Store.UpdateTask(context.WithoutCancel(ctx), *t); err != nil {
		return agent.Report{Outcome: api.OutcomeFailed, Error: api.AsError(err)}
	}
	log.Emit(ctx, api.EventTaskStarted, struct{}{})
	cfg := agent.Config{
		Executor: exec, Attempts: c.Attempts, Emit: log, Now: e.cfg.Now,
		Record: &recorder{store: e.cfg.Store, dir: e.dir(t.ID), task: t},
	}
	if r.run != nil {
		cfg.Journal, cfg.Before = steps{journal}, t.Attempts
	}
	if from.program != nil {
		return agent.New(cfg).RunArtifact(ctx, *from.program)
	}
	cfg.Ready = func(ctx context.Context, l api.Language) error { return ready(ctx, e.cfg.Tools, c.Sandbox, l) }
	ms.into(&cfg, log, b)
	cfg.Known = func(ctx context.Context, n int, l api.Language, res api.ExecutionResult) []api.KnownFix {
		return newPupil(e.cfg, t, r.log).known(ctx, n, lesson.Programs(l), lesson.Output(res))
	}
	if len(from.earlier) > 0 {
		return agent.New(cfg).Continue(ctx, history(from.earlier, t.Reply))
	}
	return agent.New(cfg).Run(ctx, api.PlanRequest{Sentence: c.Request, Files: c.Files, Schema: c.Schema})
}

// finish stores the end and says it, in this order: anyone who reads task.finished
// finds the same in the store.
func (e *Engine) finish(ctx context.Context, t api.Task, log *emitter) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	for _, a := range t.Attempts {
		if err := e.cfg.Store.PutAttempt(ctx, t.ID, a); err != nil {
			e.cfg.Logger.Error("store attempt", "task", t.ID, "attempt", a.N, "err", err)
		}
	}
	if err := e.cfg.Store.UpdateTask(ctx, t); err != nil {
		// The row stays unfinished; Recover of the next owner ends it.
		e.cfg.Logger.Error("store the end of a task", "task", t.ID, "err", err)
		return
	}
	log.finish(ctx, t)
}

// Recover takes over the unfinished tasks of owners that are provably gone, for
// [Engine.Resume], and ends those as lost that cannot go on. It returns how many it
// found. gone must be right: a task of a living owner must never be touched.
func (e *Engine) Recover(ctx context.Context, gone func(api.OwnerID) bool) (int, error) {
	tasks, err := e.cfg.Store.UnfinishedTasks(ctx, e.cfg.Owner)
	if err != nil {
		return 0, err
	}
	runs, err := survivalOf(e).take(ctx, gone)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, t := range tasks {
		if t.State == api.TaskDone || t.Owner == e.cfg.Owner || !gone(t.Owner) {
			continue
		}
		n++
		run := runs[t.ID]
		delete(runs, t.ID)
		if survivalOf(e).takeTask(ctx, t, run) {
			continue
		}
		err := survivalOf(e).loseTask(ctx, t, run, api.Errorf(api.KindUnavailable, "the daemon that ran task %s ended before the task did", t.ID).
			WithHint("Run the request again. To see what was recorded: hortus task show %s.", t.ID))
		if err != nil {
			return n, err
		}
	}
	return n, survivalOf(e).endOrphans(ctx, runs)
}
