package task

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"hortus.dev/api"
	"hortus.dev/internal/task/journal"
	"hortus.dev/internal/task/repo"
)

// resumption is a task of an owner that has ended, which is this owner's now.
type resumption struct {
	task api.Task
	run  *journal.Run
	move *api.TaskMove
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

// takeTask makes a task that can continue this owner's. It reports whether it did.
func (e *Engine) takeTask(ctx context.Context, t api.Task, run *journal.Run) bool {
	if run == nil || run.Canceled() || t.Create.Repo != nil && e.cfg.Repositories == nil {
		return false
	}
	move := e.moved(ctx, t.Owner)
	if move != nil {
		t.Moves = append(t.Moves[max(0, len(t.Moves)+1-api.MaxMoves):], *move)
	}
	t.Owner = e.cfg.Owner
	if err := e.cfg.Store.UpdateTask(ctx, t); err != nil {
		e.cfg.Logger.Error("take over a task", "task", t.ID, "err", err)
		return false
	}
	e.taken.add(resumption{t, run, move})
	return true
}

// moved says how work of an owner that has ended came to this node; nil if it was here.
func (e *Engine) moved(ctx context.Context, from api.OwnerID) *api.TaskMove {
	if e.cfg.Elsewhere == nil {
		return nil
	}
	move := e.cfg.Elsewhere.Moved(ctx, from)
	if move != nil {
		move.At = e.cfg.Now().UTC()
	}
	return move
}

// Recover takes over the unfinished tasks of owners that are provably gone, for
// [Engine.Resume], and ends those as lost that cannot continue. It returns how many it
// found. gone must be right: a task of a living owner must never be touched.
func (e *Engine) Recover(ctx context.Context, gone func(api.OwnerID) bool) (int, error) {
	tasks, err := e.cfg.Store.UnfinishedTasks(ctx, e.cfg.Owner)
	if err != nil {
		return 0, err
	}
	runs, err := e.journals.takeOver(ctx, gone)
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
		why := api.Errorf(api.KindUnavailable, "the daemon that ran task %s ended before the task did", t.ID)
		if e.takeTask(ctx, t, run) {
			continue
		}
		if err := e.loseTask(ctx, t, run, why.WithHint("Run the request again. To see what was recorded: hortus task show %s.", t.ID)); err != nil {
			return n, err
		}
	}
	return n, e.endOrphans(ctx, runs)
}

// Resume lets the tasks continue that [Engine.Recover] took over, on behalf of who requested them. It returns how many do.
// Nothing of them may be removed between the two, except for workspaces that they do not name.
func (e *Engine) Resume(ctx context.Context) int {
	n := 0
	for _, r := range e.taken.take() {
		err := e.resume(ctx, r.task, r.run, r.move)
		if err != nil {
			err = e.loseTask(ctx, r.task, r.run, api.Errorf(api.KindOf(err), "the task cannot be continued: %w", err).WithHint("%s", api.HintOf(err)))
			if e.cfg.Workstreams != nil {
				e.cfg.Workstreams.Released()
			}
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
func (e *Engine) resume(ctx context.Context, t api.Task, run *journal.Run, move *api.TaskMove) error {
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
	log := e.emitter(t)
	told, err := e.remember(ctx, log)
	if err != nil {
		return err
	}
	run.Emitted(told)
	life, cancel, hurry := e.lifeOf(api.WithPrincipal(context.WithoutCancel(ctx), in.Principal), t.ID)
	r := newActiveTask(t, cancel, hurry, log, run)
	if err := e.active.enter(t.ID, r); err != nil {
		cancel()
		return err
	}
	done, cut := run.Recorded()
	run.OnStart(func() {
		log.Emit(life, api.EventTaskResumed, api.ResumedEvent{
			Daemon: int(run.Epoch()), Steps: done, Cut: cut, PausedMS: run.Paused().Milliseconds(), MS: e.cfg.Now().Sub(began).Milliseconds(), Move: move,
		})
	})
	go func() {
		defer e.leave(t, r)
		defer cancel()
		e.brought(life, t, ms, from, r)
	}()
	return nil
}

// Brought is a task that continues, for [Config.Bring].
type Brought struct {
	// Task has the names of its workspaces. Turn is set if it is a turn of a session.
	Task *api.Task
	Turn *repo.Turn
	// Rewind removes a step from the journal, and what came after it: what they made is lost, and they are done again. KindConflict if a
	// delivery is among them.
	Rewind func(ctx context.Context, step string) error
}

// bring gets the files of a task here.
func (e *Engine) bring(ctx context.Context, t *api.Task, turn *repo.Turn, run *journal.Run) error {
	if e.cfg.Bring == nil || t.Create.Repo == nil {
		return nil
	}
	keep := ""
	if r := t.Create.Repo; r.Push || r.MergeRequest {
		keep = repo.DeliverStep
	}
	return e.cfg.Bring(ctx, Brought{Task: t, Turn: turn, Rewind: func(ctx context.Context, step string) error {
		if !run.Records() {
			return nil
		}
		return run.Rewind(ctx, step, keep)
	}})
}

// brought runs a task whose files may be on another node. Without them it is lost.
func (e *Engine) brought(ctx context.Context, t api.Task, ms models, from source, r *activeTask) {
	if err := e.bring(ctx, &t, from.turn, r.run); err != nil && ctx.Err() == nil {
		e.bringFailed(ctx, t, r.run, err)
		return
	}
	e.run(ctx, t, ms, from, r)
}

// bringFailed ends a task as lost whose files are not here.
func (e *Engine) bringFailed(ctx context.Context, t api.Task, run *journal.Run, err error) {
	if !run.Records() {
		run = nil
	}
	hint := cmp.Or(api.HintOf(err), fmt.Sprintf("Run the request again. To see what was recorded: hortus task show %s.", t.ID))
	err = e.loseTask(context.WithoutCancel(ctx), t, run, api.Errorf(api.KindUnavailable, "task %s cannot continue here: %w", t.ID, err).WithHint("%s", hint))
	if err != nil {
		e.cfg.Logger.Error("end a task that cannot be continued", "task", t.ID, "err", err)
	}
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

// loseTask ends a task of an owner that has ended, whose work cannot continue, as lost; or as canceled if somebody asked
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
		return e.journals.end(ctx, t, run, e.emitter(t))
	}
	if err := e.cfg.Store.UpdateTask(ctx, t); err != nil {
		return err
	}
	e.emitter(t).finish(ctx, t)
	return nil
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
