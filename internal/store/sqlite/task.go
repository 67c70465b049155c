package sqlite

import (
	"context"
	"database/sql"

	"hortus.dev/api"
	"hortus.dev/internal/store"
	"hortus.dev/internal/store/rowjson"
)

const taskColumns = `id, owner, state, created_at, ended_at, doc`

func (db taskTable) taskArgs(t api.Task) ([]any, error) {
	err := checkRow("task", string(t.ID), !t.CreatedAt.IsZero(), string(t.State),
		string(api.TaskPending), string(api.TaskRunning), string(api.TaskDone))
	if err != nil {
		return nil, err
	}
	t.Attempts = nil // rows of their own
	row, err := db.sealer.task(t)
	if err != nil {
		return nil, err
	}
	doc, err := rowjson.Marshal(row)
	if err != nil {
		return nil, api.Errorf(api.KindInvalid, "task %s: %w", t.ID, err)
	}
	return []any{string(t.ID), nullable(t.Owner), string(t.State), toMicros(t.CreatedAt), toMicros(t.EndedAt), string(doc)}, nil
}

// InsertTask implements store.Store.
func (db taskTable) InsertTask(ctx context.Context, t api.Task) error {
	args, err := db.taskArgs(t)
	if err != nil {
		return err
	}
	_, err = db.write.ExecContext(ctx, `INSERT INTO task
		(id, owner, host, lease_epoch, state, created_at, ended_at, doc)
		VALUES (?1, ?2, coalesce((SELECT host FROM owner WHERE id = ?2), ''), 1, ?3, ?4, ?5, ?6)`, args...)
	if err != nil {
		return insertError(ctx, err, "task", string(t.ID), "owner "+string(t.Owner))
	}
	return nil
}

// UpdateTask implements store.Store.
func (db taskTable) UpdateTask(ctx context.Context, t api.Task) error {
	args, err := db.taskArgs(t)
	if err != nil {
		return err
	}
	return db.inTx(ctx, "task "+string(t.ID), func(tx *sql.Tx) error {
		r, err := tx.ExecContext(ctx, `UPDATE task SET
			owner = ?2, host = coalesce((SELECT host FROM owner WHERE id = ?2), ''),
			lease_epoch = lease_epoch + (owner IS NOT ?2),
			state = ?3, created_at = ?4, ended_at = ?5, doc = ?6
			WHERE id = ?1 AND (state = ?3 OR state <> 'done')`, args...)
		if err != nil {
			return updateError(ctx, err, "task", string(t.ID), "owner "+string(t.Owner))
		}
		if !changed(r) {
			return updateConflict(ctx, tx, "task", "task", string(t.ID), string(t.State))
		}
		_, err = tx.ExecContext(ctx, `UPDATE attempt SET (owner, host, lease_epoch) =
			(SELECT owner, host, lease_epoch FROM task WHERE id = ?1) WHERE task = ?1 AND owner IS NOT ?2`, args[:2]...)
		if err != nil {
			return wrapError(ctx, err, "store the owner of task %s", t.ID)
		}
		return nil
	})
}

// Task implements store.Store.
func (db taskTable) Task(ctx context.Context, id api.TaskID) (api.Task, error) {
	tx, err := db.read.BeginTx(ctx, nil)
	if err != nil {
		return api.Task{}, wrapError(ctx, err, "read task %.64q", id)
	}
	defer tx.Rollback()
	t, err := get(ctx, tx, "task", string(id), db.sealer.scanTask, `SELECT `+taskColumns+` FROM task WHERE id = ?`)
	if err != nil {
		return api.Task{}, err
	}
	if t.Attempts, err = attempts(ctx, tx, id); err != nil {
		return api.Task{}, err
	}
	return t, nil
}

// Tasks implements store.Store.
func (db taskTable) Tasks(ctx context.Context, f store.TaskFilter) ([]api.Task, error) {
	if err := checkLimit("tasks", f.Limit); err != nil {
		return nil, err
	}
	w := taskWhere(f)
	q, args := w.selectSQL(taskColumns, "task", "created_at DESC, seq DESC", f.Limit)
	if !f.WithAttempts {
		return list(ctx, db.read, "tasks", db.sealer.scanTask, q, args...)
	}
	tx, err := db.read.BeginTx(ctx, nil)
	if err != nil {
		return nil, wrapError(ctx, err, "list tasks")
	}
	defer tx.Rollback()
	all, err := list(ctx, tx, "tasks", db.sealer.scanTask, q, args...)
	if err != nil {
		return nil, err
	}
	for i := range all {
		if all[i].Attempts, err = attempts(ctx, tx, all[i].ID); err != nil {
			return nil, err
		}
	}
	return all, nil
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

func (s *sealer) scanTask(r scanner) (t api.Task, err error) {
	var row taskDoc
	var id, state, doc string
	var owner sql.NullString
	var created, ended sql.NullInt64
	if err := r.Scan(&id, &owner, &state, &created, &ended, &doc); err != nil {
		return t, err
	}
	if err := rowjson.Unmarshal([]byte(doc), &row); err != nil {
		return t, api.Errorf(api.KindInternal, "the row of task %s is damaged: %w", id, err)
	}
	t = s.openTask(row, api.TaskID(id))
	t.ID, t.State, t.Owner = api.TaskID(id), api.TaskState(state), api.OwnerID(owner.String)
	t.CreatedAt, t.EndedAt = fromMicros(created), fromMicros(ended)
	return t, nil
}
