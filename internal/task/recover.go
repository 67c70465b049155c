package task

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/task/journal"
	"hortus.dev/internal/task/repo"
)

// runKind is the kind of the runs of tasks. A run has the identifier of its task.
const runKind = "task"

// runInput is what a task needs to go on beside its row.
type runInput struct {
	Principal api.Principal `json:"principal"`
	Turn      *repo.Turn    `json:"turn,omitempty"`
}

// survives reports whether a task goes on after the death of its daemon. One that is recorded does not: the file with
// the recording cannot be continued. Neither does one that keeps its sandbox, which ends with its daemon.
func (e *Engine) survives(t api.Task) bool {
	return e.cfg.Journal != nil && t.Create.Record == "" && !t.Create.Keep
}

// beginJournal begins the journal of a task, which records nothing if the task does not survive.
func (e *Engine) beginJournal(ctx context.Context, t api.Task, turn *repo.Turn) (*journal.Run, error) {
	if !e.survives(t) {
		return journal.None(e.cfg.Now), nil
	}
	return e.cfg.Journal.Begin(context.WithoutCancel(ctx), string(t.ID), runKind, runInput{api.PrincipalOf(ctx), turn})
}

// discardJournal ends the journal of a task that has no row.
func (e *Engine) discardJournal(ctx context.Context, run *journal.Run) {
	if !run.Records() {
		return
	}
	if _, err := run.End(context.WithoutCancel(ctx), journal.End{}); err != nil {
		e.cfg.Logger.Error("end the journal of a task that did not begin", "task", run.ID(), "err", err)
	}
}

// resumption is a task of an owner that has ended, which is this owner's now.
type resumption struct {
	task api.Task
	run  *journal.Run
}

// handover has the tasks that were taken over and do not run yet.
type handover struct {
	mu  sync.Mutex
	all []resumption
}

func (h *handover) add(r resumption) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, r)
}

// take returns them, once.
func (h *handover) take() []resumption {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.all
	h.all = nil
	return all
}

// takeJournals takes over the journals of tasks whose owners have ended, by their tasks. One that cannot be taken over is left
// out, and its task is lost.
func (e *Engine) takeJournals(ctx context.Context, gone func(api.OwnerID) bool) (map[api.TaskID]*journal.Run, error) {
	if e.cfg.Journal == nil {
		return nil, nil
	}
	rows, err := e.cfg.Journal.Unfinished(ctx, runKind)
	if err != nil {
		return nil, err
	}
	runs := map[api.TaskID]*journal.Run{}
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
func (e *Engine) takeTask(ctx context.Context, t api.Task, run *journal.Run) bool {
	if run == nil || run.Canceled() || t.Create.Repo != nil && e.cfg.Repositories == nil {
		return false
	}
	t.Owner = e.cfg.Owner
	if err := e.cfg.Store.UpdateTask(ctx, t); err != nil {
		e.cfg.Logger.Error("take over a task", "task", t.ID, "err", err)
		return false
	}
	e.taken.add(resumption{t, run})
	return true
}

// Recover takes over the unfinished tasks of owners that are provably gone, for
// [Engine.Resume], and ends those as lost that cannot go on. It returns how many it
// found. gone must be right: a task of a living owner must never be touched.
func (e *Engine) Recover(ctx context.Context, gone func(api.OwnerID) bool) (int, error) {
	tasks, err := e.cfg.Store.UnfinishedTasks(ctx, e.cfg.Owner)
	if err != nil {
		return 0, err
	}
	runs, err := e.takeJournals(ctx, gone)
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
		if e.takeTask(ctx, t, run) {
			continue
		}
		err := e.loseTask(ctx, t, run, api.Errorf(api.KindUnavailable, "the daemon that ran task %s ended before the task did", t.ID).
			WithHint("Run the request again. To see what was recorded: hortus task show %s.", t.ID))
		if err != nil {
			return n, err
		}
	}
	return n, e.endOrphans(ctx, runs)
}

// Resume lets the tasks go on that [Engine.Recover] took over, on behalf of who requested them. It returns how many do.
// Nothing of them may be removed between the two, except for workspaces that they do not name.
func (e *Engine) Resume(ctx context.Context) int {
	n := 0
	for _, r := range e.taken.take() {
		err := e.resume(ctx, r.task, r.run)
		if err != nil {
			err = e.loseTask(ctx, r.task, r.run, api.Errorf(api.KindOf(err), "the task cannot be continued: %w", err).WithHint("%s", api.HintOf(err)))
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
func (e *Engine) resume(ctx context.Context, t api.Task, run *journal.Run) error {
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
	if t.Create.Request != "" {
		ms, err = e.lineup.of(t.Create)
	} else {
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
	run.Emitted(told)
	life := api.WithPrincipal(context.WithoutCancel(ctx), in.Principal)
	life, cancel := context.WithCancel(api.WithTask(life, t.ID))
	r := &activeTask{cancel: cancel, done: make(chan struct{}), log: log, run: run}
	if err := e.active.enter(t.ID, r); err != nil {
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
		defer e.active.leave(t.ID, r)
		defer cancel()
		e.run(life, t, ms, from, r)
	}()
	return nil
}

// remember counts the events of a task, and its calls of models.
func (e *Engine) remember(ctx context.Context, log *emitter) (*journal.Counts, error) {
	told := &journal.Counts{}
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
func (e *Engine) loseTask(ctx context.Context, t api.Task, run *journal.Run, why *api.Error) error {
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
func (e *Engine) endRun(ctx context.Context, t api.Task, run *journal.Run, log *emitter) error {
	return log.finishWith(func() error {
		data, err := json.Marshal(t)
		if err != nil {
			return err
		}
		at := e.cfg.Now().UTC().Truncate(time.Microsecond)
		ev := api.Event{Stream: log.stream, At: at, Type: api.EventTaskFinished, Data: data}
		if ev.Seq, err = run.End(ctx, journal.End{At: at, Task: &t, Event: &ev}); err == nil && e.cfg.Appended != nil {
			e.cfg.Appended(ev)
		}
		return err
	})
}

// storeCancel stores that a task is to be stopped, so that no later daemon continues it.
func (e *Engine) storeCancel(ctx context.Context, run *journal.Run) {
	if !run.Records() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	if err := run.Cancel(ctx); err != nil && api.KindOf(err) != api.KindConflict {
		e.cfg.Logger.Error("store the cancellation of a task", "task", run.ID(), "err", err)
	}
}

// endOrphans ends journals whose tasks have no row: their daemon died before it was there.
func (e *Engine) endOrphans(ctx context.Context, runs map[api.TaskID]*journal.Run) error {
	var errs []error
	for id, run := range runs {
		t, err := e.cfg.Store.Task(ctx, id)
		if api.KindOf(err) == api.KindNotFound || err == nil && t.State == api.TaskDone {
			_, err = run.End(ctx, journal.End{})
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
