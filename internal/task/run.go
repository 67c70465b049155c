package task

import (
	"context"
	"encoding/json"
	"runtime/debug"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent"
	"hortus.dev/internal/task/journal"
	"hortus.dev/internal/task/lesson"
)

// storeTimeout bounds writes that a task does not depend on.
const storeTimeout = 30 * time.Second

// run is the life of one task, from its start to its last event.
func (e *Engine) run(ctx context.Context, t api.Task, ms models, from source, r *activeTask) {
	ctx = api.WithWaitTold(ctx, func(w api.WaitingEvent) { r.log.Emit(ctx, api.EventTaskWaiting, w) })
	if t.Create.Repo != nil {
		worked(&t, e.repository(ctx, &t, ms, from, r))
		if !r.run.Left() {
			e.handBack(ctx, t, from.earlier)
		}
	} else {
		rep := lost(&t, r.run, e.pipeline(ctx, &t, ms, from, r))
		t.Outcome, t.Plan, t.Attempts = rep.Outcome, rep.Plan, rep.Attempts
		t.Diagnosis, t.Question = rep.Diagnosis, rep.Question
		t.Error, t.Usage, t.Receipt, t.Value = rep.Error, rep.Usage, rep.Receipt, rep.Value
	}
	if r.run.Left() {
		if !r.resting.Load() {
			e.handOver(ctx, t)
			return
		}
		// Its row, its journal and its workspace stay this owner's, as after the death of the daemon.
		why := "the daemon stopped; the task continues at its next start"
		if e.cfg.Elsewhere != nil {
			why += ", or on another node"
		}
		r.log.left(ctx, api.LeftEvent{Why: why, Cut: r.cut.Load()})
		return
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
	// Before the task is done: anyone who waits for it can use what it taught.
	newTeacher(e.cfg, &t, r.log).learn(ctx, e.cfg.Repositories)
	if !r.run.Records() {
		e.finish(ctx, t, r.log)
		return
	}
	r.run.Start()
	if err := e.journals.end(context.WithoutCancel(ctx), t, r.run, r.log); err != nil {
		// The row stays unfinished; the next daemon continues with the task.
		e.cfg.Logger.Error("store the end of a task", "task", t.ID, "err", err)
	}
}

// bounds are the longest times of one pass.
type bounds struct{ install, run time.Duration }

// pipeline runs the roles. A defect in one of them ends this task alone.
func (e *Engine) pipeline(ctx context.Context, t *api.Task, ms models, from source, r *activeTask) (rep agent.Report) {
	c, log := t.Create, r.run.Once(r.log)
	b := bounds{time.Duration(c.InstallTimeoutMS) * time.Millisecond, time.Duration(c.RunTimeoutMS) * time.Millisecond}
	schema, err := compiled(c.Schema)
	if err != nil {
		return agent.Report{Outcome: api.OutcomeFailed, Error: api.AsError(err)}
	}
	exec := agent.NewExecutor(agent.ExecutorConfig{
		Sandboxes: e.cfg.Sandboxes, Sandbox: t.Sandbox(), InstallTimeout: b.install, RunTimeout: b.run, Keep: c.Keep, Emit: log,
		Inputs: e.folders.inputs(*t), Setup: c.SetupEgress, Schema: schema,
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
		Record: &recorder{store: e.cfg.Store, dir: e.folders.of(t.ID), task: t, room: func(need int64) error { return e.room(ctx, *t, need) }, left: r.run.Left},
	}
	if r.run.Records() {
		cfg.Journal, cfg.Before = steps{r.run, e.leaves(*t, r.run)}, t.Attempts
	}
	if from.program != nil {
		return agent.New(cfg).RunArtifact(ctx, *from.program)
	}
	cfg.Ready = func(ctx context.Context, l api.Language) error { return ready(ctx, e.cfg.Tools, c.Sandbox, l) }
	ms.into(&cfg, log, b)
	cfg.Known = func(ctx context.Context, n int, l api.Language, res api.ExecutionResult) []api.KnownFix {
		return newTeacher(e.cfg, t, r.log).known(ctx, n, lesson.Programs(l), lesson.Output(res))
	}
	if len(from.earlier) > 0 {
		return agent.New(cfg).Continue(ctx, history(from.earlier, t.Reply))
	}
	return agent.New(cfg).Run(ctx, api.PlanRequest{Sentence: c.Request, Files: c.Files, Schema: c.Schema})
}

// finish stores the end and says it, in this order: anyone who reads task.finished
// finds the same in the store.
func (e *Engine) finish(ctx context.Context, t api.Task, log *emitter) {
	ctx = context.WithoutCancel(ctx)
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

// steps records the steps of a pipeline in the journal of its task. It implements agent.Journal.
type steps struct {
	run    *journal.Run
	leaves func(context.Context) bool // nil for never
}

// Step implements agent.Journal.
func (s steps) Step(ctx context.Context, name string, asked, result any, do func(context.Context) error) error {
	if s.leaves != nil && !s.run.Has(name) && s.leaves(ctx) {
		return s.run.Leave()
	}
	executed := false
	raw, err := journal.Do(ctx, s.run, name, journal.Digest(asked), func(ctx context.Context, _ journal.Try) (json.RawMessage, error) {
		executed = true
		derr := do(ctx)
		raw, err := json.Marshal(result)
		if err != nil {
			return nil, api.Errorf(api.KindInternal, "encode the result of the step %s: %w", name, err)
		}
		return raw, derr
	})
	if executed || len(raw) == 0 {
		return err
	}
	if derr := json.Unmarshal(raw, result); derr != nil {
		derr = api.Errorf(api.KindInternal, "the recorded result of the step %s: %w", name, derr)
		s.run.Spoil(derr)
		return derr
	}
	return err
}

// lost is the report of a pipeline whose journal cannot be continued.
func lost(t *api.Task, run *journal.Run, rep agent.Report) agent.Report {
	if err := run.Damage(); err != nil {
		rep.Outcome = api.OutcomeLost
		rep.Error = api.Errorf(api.KindOf(err), "the task cannot be continued: %w", err).
			WithHint("Run the request again. To see what was recorded: hortus task show %s.", t.ID)
	}
	return rep
}

// advise adds to the diagnosis of a task that was not verified what its sandbox did not
// have, and how to get it there.
func (e *Engine) advise(ctx context.Context, t *api.Task) {
	if e.cfg.Advise == nil || t.Outcome != api.OutcomeNeedsHuman {
		return
	}
	advice := e.cfg.Advise(context.WithoutCancel(ctx), *t)
	if advice == "" {
		return
	}
	if t.Diagnosis != "" {
		t.Diagnosis = strings.TrimRight(t.Diagnosis, ". \n") + ". "
	}
	t.Diagnosis += advice
}
