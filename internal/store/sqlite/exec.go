package sqlite

import (
	"context"
	"database/sql"

	"hortus.dev/api"
	"hortus.dev/internal/store"
	"hortus.dev/internal/store/rowjson"
)

const (
	insertExecSQL = `INSERT INTO exec
		(id, sandbox, owner, host, lease_epoch, state, started_at, ended_at, doc)
		SELECT ?1, id, owner, host, lease_epoch, ?3, ?4, ?5, ?6 FROM sandbox WHERE id = ?2`
	updateExecSQL = `UPDATE exec SET state = ?3, started_at = ?4, ended_at = ?5, doc = ?6
		WHERE id = ?1 AND sandbox = ?2 AND (state = ?3 OR state NOT IN ('exited', 'unknown'))`
)

const execColumns = `id, sandbox, state, started_at, ended_at, doc`

func execArgs(e api.Exec) ([]any, error) {
	err := checkRow("exec", string(e.ID), !e.StartedAt.IsZero(), string(e.State),
		string(api.ExecRunning), string(api.ExecExited), string(api.ExecUnknown))
	if err != nil {
		return nil, err
	}
	doc, err := rowjson.Marshal(e)
	if err != nil {
		return nil, api.Errorf(api.KindInvalid, "exec %s: %w", e.ID, err)
	}
	return []any{string(e.ID), string(e.Sandbox), string(e.State), toMicros(e.StartedAt), toMicros(e.EndedAt), string(doc)}, nil
}

// InsertExec implements store.Store.
func (db execTable) InsertExec(ctx context.Context, e api.Exec) error {
	args, err := execArgs(e)
	if err != nil {
		return err
	}
	if done, err := db.ahead.put(ctx, record{insertExecOp, args}); done || err != nil {
		return err
	}
	r, err := db.insertExec.ExecContext(ctx, args...)
	if err != nil {
		return insertError(ctx, err, "exec", string(e.ID), "sandbox "+string(e.Sandbox))
	}
	if !changed(r) {
		return notFound("sandbox", string(e.Sandbox))
	}
	return nil
}

// UpdateExec implements store.Store.
func (db execTable) UpdateExec(ctx context.Context, e api.Exec) error {
	args, err := execArgs(e)
	if err != nil {
		return err
	}
	if done, err := db.ahead.put(ctx, record{updateExecOp, args}); done || err != nil {
		return err
	}
	r, err := db.updateExec.ExecContext(ctx, args...)
	if err != nil {
		return wrapError(ctx, err, "store exec %s", e.ID)
	}
	if changed(r) {
		return nil
	}
	// Find out why it changed nothing.
	return db.inTx(ctx, "exec "+string(e.ID), func(tx *sql.Tx) error {
		var sandbox string
		err := tx.QueryRowContext(ctx, `SELECT sandbox FROM exec WHERE id = ?`, string(e.ID)).Scan(&sandbox)
		if err == nil && sandbox != string(e.Sandbox) {
			return api.Errorf(api.KindInvalid, "exec %s is of sandbox %s, not of %.64q", e.ID, sandbox, e.Sandbox)
		}
		return updateConflict(ctx, tx, "exec", "exec", string(e.ID), string(e.State))
	})
}

// Exec implements store.Store.
func (db execTable) Exec(ctx context.Context, id api.ExecID) (api.Exec, error) {
	if err := db.ahead.flush(ctx); err != nil {
		return api.Exec{}, err
	}
	return get(ctx, db.read, "exec", string(id), scanExec, `SELECT `+execColumns+` FROM exec WHERE id = ?`)
}

// Execs implements store.Store.
func (db execTable) Execs(ctx context.Context, f store.ExecFilter) ([]api.Exec, error) {
	if err := checkLimit("execs", f.Limit); err != nil {
		return nil, err
	}
	if err := db.ahead.flush(ctx); err != nil {
		return nil, err
	}
	w := execWhere(f)
	q, args := w.selectSQL(execColumns, "exec", "started_at DESC, seq DESC", f.Limit)
	return list(ctx, db.read, "execs", scanExec, q, args...)
}

func execWhere(f store.ExecFilter) (w where) {
	w.equals("sandbox", string(f.Sandbox))
	in(&w, "state", f.States)
	return w
}

func scanExec(r scanner) (e api.Exec, err error) {
	var id, sandbox, state, doc string
	var started, ended sql.NullInt64
	if err := r.Scan(&id, &sandbox, &state, &started, &ended, &doc); err != nil {
		return e, err
	}
	if err := rowjson.Unmarshal([]byte(doc), &e); err != nil {
		return e, api.Errorf(api.KindInternal, "the row of exec %s is damaged: %w", id, err)
	}
	e.ID, e.Sandbox, e.State = api.ExecID(id), api.SandboxID(sandbox), api.ExecState(state)
	e.StartedAt, e.EndedAt = fromMicros(started), fromMicros(ended)
	return e, nil
}
