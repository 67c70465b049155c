package sqlite

import (
	"context"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store"
	"hortus.dev/internal/store/sqlite/sealed"
)

const taskColumns = `doc, id, owner, state, created_at, ended_at`

// taskTable has the rows of tasks, of their attempts, and the sums of removed tasks.
type taskTable struct {
	table[api.Task, api.TaskID]
}

func newTaskTable(db *database) taskTable {
	return taskTable{table[api.Task, api.TaskID]{
		db: db, what: "task", plural: "tasks", name: "task", letter: "t", at: "created_at",
		columns: taskColumns, scan: scanTask(db.sealer),
		mark:     func(t api.Task) (time.Time, api.TaskID) { return t.CreatedAt, t.ID },
		states:   names(api.TaskPending, api.TaskRunning, api.TaskDone),
		final:    names(api.TaskDone),
		stored:   []string{"state", "created_at", "ended_at", "doc"},
		child:    "attempt",
		document: func(t api.Task) (any, error) { return db.sealer.Task(t) },
		values: func(t api.Task) []any {
			return []any{string(t.ID), nullable(t.Owner), string(t.State), toMicros(t.CreatedAt), toMicros(t.EndedAt)}
		},
	}}
}

// InsertTask implements store.Store.
func (t taskTable) InsertTask(ctx context.Context, task api.Task) error {
	return t.insert(ctx, task)
}

// UpdateTask implements store.Store.
func (t taskTable) UpdateTask(ctx context.Context, task api.Task) error {
	return t.update(ctx, task)
}

// Task implements store.Store.
func (t taskTable) Task(ctx context.Context, id api.TaskID) (task api.Task, err error) {
	err = t.db.inReadTx(ctx, func(r runner) error {
		if task, err = t.get(ctx, r, id); err == nil {
			task.Attempts, err = attempts(ctx, r, id)
		}
		return err
	})
	return task, err
}

// Tasks implements store.Store.
func (t taskTable) Tasks(ctx context.Context, f store.TaskFilter) (all []api.Task, err error) {
	err = t.db.inReadTx(ctx, func(r runner) error {
		if all, err = t.list(ctx, r, taskWhere(f), f.Limit); err != nil || !f.WithAttempts {
			return err
		}
		for i := range all {
			if all[i].Attempts, err = attempts(ctx, r, all[i].ID); err != nil {
				return err
			}
		}
		return nil
	})
	return all, err
}

// TaskPage implements store.Store.
func (t taskTable) TaskPage(ctx context.Context, f store.TaskFilter) (rows []api.Task, next store.Cursor, err error) {
	err = t.db.inReadTx(ctx, func(r runner) error {
		rows, next, err = t.page(ctx, r, taskWhere(f), f.Limit, f.After)
		if err != nil || !f.WithAttempts {
			return err
		}
		size := 0
		for i := range rows {
			if size >= store.MaxPageBytes {
				rows, next = rows[:i:i], t.cursor(rows[i-1])
				return nil
			}
			scan := func(r scanner) (api.Attempt, error) { return scanAttempt(sizeCounter{r, &size}) }
			if rows[i].Attempts, err = list(ctx, r, "attempts of task "+string(rows[i].ID), scan, attemptsSQL, string(rows[i].ID)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, store.Cursor{}, err
	}
	return rows, next, nil
}

// FindTaskOf implements store.Store.
func (t taskTable) FindTaskOf(ctx context.Context, account, prefix string) (api.TaskID, error) {
	return t.find(ctx, account, prefix)
}

func taskWhere(f store.TaskFilter) (w where) {
	in(&w, "state", f.States)
	w.equals("account", f.Account)
	w.equals("owner", string(f.Owner))
	w.notEquals("owner", string(f.NotOwner))
	if !f.Since.IsZero() {
		w.conds = append(w.conds, "created_at >= ?")
		w.args = append(w.args, toMicros(f.Since))
	}
	if f.Programs {
		w.conds = append(w.conds, "json_extract(doc, '$.create.repo') IS NULL")
	}
	return w
}

func scanTask(k *sealed.Sealer) func(scanner) (api.Task, error) {
	return func(r scanner) (api.Task, error) {
		var row sealed.TaskDoc
		err := scanRow(r, "task", &row, &row.ID, text(&row.Owner), &row.State, instant{&row.CreatedAt}, instant{&row.EndedAt})
		return k.OpenTask(row), err
	}
}
