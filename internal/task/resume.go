package task

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/task/durable"
	"hortus.dev/internal/task/recall"
	"hortus.dev/internal/task/repo"
)

// runKind is the kind of the runs of tasks. A run has the identifier of its task.
const runKind = "task"

// runInput is what a task needs to go on beside its row.
type runInput struct {
	Principal api.Principal `json:"principal"`
	Turn      *repo.Turn    `json:"turn,omitempty"`
}

// survival is what lets tasks go on after the death of their daemon.
type survival struct{ *Engine }

func survivalOf(e *Engine) survival { return survival{e} }

// survives reports whether a task goes on after the death of its daemon. One that is recorded does not: the file with
// the recording cannot be continued. Neither does one that keeps its sandbox, which ends with its daemon.
func (e survival) survives(t api.Task) bool {
	return e.cfg.Journal != nil && t.Create.Record == "" && !t.Create.Keep
}

// journal begins the journal of a task that survives; nil for one that does not.
func (e survival) journal(ctx context.Context, t api.Task, turn *repo.Turn) (*durable.Run, error) {
	if !e.survives(t) {
		return nil, nil
	}
	return e.cfg.Journal.Begin(context.WithoutCancel(ctx), string(t.ID), runKind, runInput{api.PrincipalOf(ctx), turn})
}

// discardRun ends the journal of a task that has no row.
func (e survival) discardRun(ctx context.Context, run *durable.Run) {
	if run == nil {
		return
	}
	if _, err := run.End(context.WithoutCancel(ctx), durable.End{}); err != nil {
		e.cfg.Logger.Error("end the journal of a task that did not begin", "task", run.ID(), "err", err)
	}
}

// resumable is a task of an owner that has ended, which is this owner's now.
type resumable struct {
	task api.Task
	run  *durable.Run
}

// resumables are tasks that were taken over and do not run yet.
type resumables struct {
	mu  sync.Mutex
	all []resumable
}

// take takes over the journals of tasks whose owners have ended, by their tasks. One that cannot be taken over is left
// out, and its task is lost.
func (e survival) take(ctx context.Context, gone func(api.OwnerID) bool) (map[api.TaskID]*durable.Run, error) {
	if e.cfg.Journal == nil {
		return nil, nil
	}
	rows, err := e.cfg.Journal.Unfinished(ctx, runKind)
	if err != nil {
		return nil, err
	}
	runs := map[api.TaskID]*durable.Run{}
	for _, row := range rows {
		if !gone(row.Owner) {
			continue
		}
		run, err := e.cfg.Journal.Take(ctx, row.ID, row.Owner)
		if err != nil {
			e.cfg.Logger.Error("take over the journal of a task", "task", row.ID, "err", err)
			continue
		}
		runs[api.TaskID(row.ID)] = run
	}
	return runs, nil
}

// takeTask makes a task that can go on this owner's. It reports whether it did.
func (e survival) takeTask(ctx context.Context, t api.Task, run *durable.Run) bool {
	if run == nil || run.Canceled() || t.Create.Repo != nil && e.cfg.Repositories == nil {
		return false
	}
	t.Owner = e.cfg.Owner
	if err := e.cfg.Store.UpdateTask(ctx, t); err != nil {
		e.cfg.Logger.Error("take over a task", "task", t.ID, "err", err)
		return false
	}
	e.resumables.mu.Lock()
	defer e.resumables.mu.Unlock()
	e.resumables.all = append(e.resumables.all, resumable{t, run})
	return true
}

// Resume lets the tasks go on that [Engine.Recover] took over, on behalf of who requested them. It returns how many do.
// Nothing of them may be removed between the two, except for workspaces that they do not name.
func (e *Engine) Resume(ctx context.Context) int {
	e.resumables.mu.Lock()
	all := e.resumables.all
	e.resumables.all = nil
	e.resumables.mu.Unlock()
	n := 0
	for _, r := range all {
		err := survivalOf(e).resume(ctx, r.task, r.run)
		if err != nil {
			err = survivalOf(e).loseTask(ctx, r.task, r.run, api.Errorf(api.KindOf(err), "the task cannot be continued: %w", err).WithHint("%s", api.HintOf(err)))
			if err != nil {
				e.cfg.Logger.Error("end a task that cannot be continued", "task", r.task.ID, "err", err)
			}
			continue
		}
		n++
	}
	return n
}

// resume starts a task again, which goes through what is recorded and continues behind it.
func (e survival) resume(ctx context.Context, t api.Task, run *durable.Run) error {
	began := e.cfg.Now()
	var in runInput
	if err := run.Input(&in); err != nil {
		return err
	}
	for _, name := range t.EnvNames {
		if _, ok := t.Env[name]; !ok {
			return api.Errorf(api.KindConflict, "cannot decrypt the environment values of task %s", t.ID)
		}
	}
	var ms models
	from := source{turn: in.Turn}
	var err error
	switch {
	case t.Create.Repo != nil:
		ms, err = lineup{e.cfg.Model}.agent(t.Create)
	case t.Create.Request != "":
		ms, err = e.models(t.Create)
	default:
		from.program, err = e.program(ctx, t.Create)
	}
	if err != nil {
		return err
	}
	if t.Continues != "" {
		before, err := e.cfg.Store.Task(ctx, t.Continues)
		if err != nil {
			return err
		}
		if from.earlier, err = e.chain(ctx, before); err != nil {
			return err
		}
	}
	log := e.emitter(t.ID)
	told, err := e.remember(ctx, log)
	if err != nil {
		return err
	}
	life := api.WithPrincipal(context.WithoutCancel(ctx), in.Principal)
	life, cancel := context.WithCancel(api.WithTask(life, t.ID))
	r := &running{cancel: cancel, done: make(chan struct{}), log: log, run: run, told: told}
	if err := e.enter(t.ID, r); err != nil {
		cancel()
		return err
	}
	done, cut := run.Recorded()
	run.OnLive(func() {
		log.Emit(life, api.EventTaskResumed, api.ResumedEvent{
			Daemon: int(run.Epoch()), Steps: done, Cut: cut, PausedMS: run.Paused().Milliseconds(), MS: e.cfg.Now().Sub(began).Milliseconds(),
		})
	})
	go func() {
		defer e.leave(t.ID, r)
		defer cancel()
		e.run(life, t, ms, from, r)
	}()
	return nil
}

// remember counts the events of a task, and its calls of models.
func (e survival) remember(ctx context.Context, log *emitter) (*recall.Told, error) {
	told := &recall.Told{}
	if e.cfg.Events == nil {
		return told, nil
	}
	for after := int64(0); ; {
		page, err := e.cfg.Events(ctx, log.stream, after, 0)
		if err != nil || len(page) == 0 {
			return told, err
		}
		for _, ev := range page {
			told.Add(ev)
			var given api.LessonsEvent
			if ev.Type == api.EventLessons && json.Unmarshal(ev.Data, &given) == nil {
				log.given(given)
			}
			var call api.ModelEvent
			if ev.Type == api.EventModel && json.Unmarshal(ev.Data, &call) == nil {
				log.count(call)
			}
			after = ev.Seq
		}
	}
}

// loseTask ends a task of an owner that has ended, whose work cannot go on, as lost; or as canceled if somebody asked
// for that.
func (e survival) loseTask(ctx context.Context, t api.Task, run *durable.Run, why *api.Error) error {
	t.State, t.Outcome, t.Error = api.TaskDone, api.OutcomeLost, why
	t.EndedAt = e.cfg.Now().UTC()
	if run != nil && run.Canceled() {
		t.Outcome, t.Error, t.Receipt = api.OutcomeCanceled, nil, &api.Receipt{Completed: []string{}, Skipped: []string{}}
	}
	if e.cfg.Repositories != nil && t.Create.Repo != nil && t.Repo != nil {
		kept := e.cfg.Repositories.Salvage(ctx, t)
		t.Repo = &kept
	}
	if run != nil {
		return e.endRun(ctx, t, run, e.emitter(t.ID))
	}
	if err := e.cfg.Store.UpdateTask(ctx, t); err != nil {
		return err
	}
	e.emitter(t.ID).finish(ctx, t)
	return nil
}

// endRun ends a task with its journal: the row, the last event and the journal in one transaction.
func (e survival) endRun(ctx context.Context, t api.Task, run *durable.Run, log *emitter) error {
	return log.finishWith(func() error {
		data, err := json.Marshal(t)
		if err != nil {
			return err
		}
		at := e.cfg.Now().UTC().Truncate(time.Microsecond)
		ev := api.Event{Stream: log.stream, At: at, Type: api.EventTaskFinished, Data: data}
		if ev.Seq, err = run.End(ctx, durable.End{At: at, Task: &t, Event: &ev}); err == nil && e.cfg.Appended != nil {
			e.cfg.Appended(ev)
		}
		return err
	})
}

// stoppedBefore stores that a task is to be stopped, so that no later daemon continues it.
func (e survival) stoppedBefore(ctx context.Context, run *durable.Run) {
	if run == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	if err := run.Cancel(ctx); err != nil && api.KindOf(err) != api.KindConflict {
		e.cfg.Logger.Error("store the cancellation of a task", "task", run.ID(), "err", err)
	}
}

// journaled sets what a job on a repository needs of the journal.
func (r *running) journaled(job repo.Job) repo.Job {
	job.Run, job.Told = r.run, r.told
	return job
}

// endOrphans ends journals whose tasks have no row: their daemon died before it was there.
func (e survival) endOrphans(ctx context.Context, runs map[api.TaskID]*durable.Run) error {
	var errs []error
	for id, run := range runs {
		t, err := e.cfg.Store.Task(ctx, id)
		if api.KindOf(err) == api.KindNotFound || err == nil && t.State == api.TaskDone {
			_, err = run.End(ctx, durable.End{})
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
