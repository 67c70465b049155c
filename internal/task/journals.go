package task

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/task/journal"
	"hortus.dev/internal/task/repo"
)

// journals begins, takes over and ends the journals of tasks.
type journals struct {
	of       *journal.Journal // nil if no task survives its daemon
	appended func(api.Event)  // learns of the last event of a task; may be nil
	now      func() time.Time
	log      *slog.Logger
}

// runKind is the kind of the runs of tasks. A run has the identifier of its task.
const runKind = "task"

// runInput is what a task needs to continue beside its row.
type runInput struct {
	Principal api.Principal `json:"principal"`
	Turn      *repo.Turn    `json:"turn,omitempty"`
}

// survives reports whether a task continues after the death of its daemon. One that is recorded does not: the file with
// the recording cannot be continued. Neither does one that keeps its sandbox, which ends with its daemon.
func (j journals) survives(t api.Task) bool {
	return j.of != nil && t.Create.Record == "" && !t.Create.Keep
}

// begin begins the journal of a task, which records nothing if the task does not survive.
func (j journals) begin(ctx context.Context, t api.Task, turn *repo.Turn) (*journal.Run, error) {
	if !j.survives(t) {
		return journal.None(j.now), nil
	}
	return j.of.Begin(context.WithoutCancel(ctx), string(t.ID), runKind, runInput{api.PrincipalOf(ctx), turn})
}

// discard ends the journal of a task that has no row.
func (j journals) discard(ctx context.Context, run *journal.Run) {
	if !run.Records() {
		return
	}
	if _, err := run.End(context.WithoutCancel(ctx), journal.End{}); err != nil {
		j.log.Error("end the journal of a task that did not begin", "task", run.ID(), "err", err)
	}
}

// takeOver takes over the journals of tasks whose owners have ended, by their tasks. One that cannot be taken over is left
// out, and its task is lost.
func (j journals) takeOver(ctx context.Context, gone func(api.OwnerID) bool) (map[api.TaskID]*journal.Run, error) {
	if j.of == nil {
		return nil, nil
	}
	rows, err := j.of.Unfinished(ctx, runKind)
	if err != nil {
		return nil, err
	}
	runs := map[api.TaskID]*journal.Run{}
	for _, row := range rows {
		if !gone(row.Owner) {
			continue
		}
		run, err := j.of.Take(ctx, row.ID, row.Owner)
		if err != nil {
			j.log.Error("take over the journal of a task", "task", row.ID, "err", err)
			continue
		}
		runs[api.TaskID(row.ID)] = run
	}
	return runs, nil
}

// end ends a task with its journal: the row, the last event and the journal in one transaction.
func (j journals) end(ctx context.Context, t api.Task, run *journal.Run, log *emitter) error {
	return log.finishWith(func() error {
		data, err := json.Marshal(t)
		if err != nil {
			return err
		}
		at := j.now().UTC().Truncate(time.Microsecond)
		ev := api.Event{Stream: log.stream, At: at, Type: api.EventTaskFinished, Data: data}
		if ev.Seq, err = run.End(ctx, journal.End{At: at, Task: &t, Event: &ev}); err == nil && j.appended != nil {
			j.appended(ev)
		}
		return err
	})
}

// cancel stores that a task is to be stopped, so that no later daemon continues it.
func (j journals) cancel(ctx context.Context, run *journal.Run) {
	if !run.Records() {
		return
	}
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer done()
	if err := run.Cancel(ctx); err != nil && api.KindOf(err) != api.KindConflict {
		j.log.Error("store the cancellation of a task", "task", run.ID(), "err", err)
	}
}
