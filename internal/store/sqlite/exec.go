package sqlite

import (
	"context"
	"database/sql"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

const (
	insertExecSQL = `INSERT INTO exec
		(id, sandbox, owner, host, lease_epoch, state, started_at, ended_at, doc)
		SELECT ?1, id, owner, host, lease_epoch, ?3, ?4, ?5, ?6 FROM sandbox WHERE id = ?2`
	updateExecSQL = `UPDATE exec SET state = ?3, started_at = ?4, ended_at = ?5, doc = ?6
		WHERE id = ?1 AND sandbox = ?2 AND (state = ?3 OR state NOT IN ('exited', 'unknown'))`
)

type execTable struct {
	table[api.Exec, api.ExecID]
}

func newExecTable(db *database) execTable {
	return execTable{table[api.Exec, api.ExecID]{
		db: db, what: "exec", plural: "execs", name: "exec", at: "started_at",
		columns: `doc, id, sandbox, state, started_at, ended_at`, scan: scanExec,
		mark:   func(e api.Exec) (time.Time, api.ExecID) { return e.StartedAt, e.ID },
		states: names(api.ExecRunning, api.ExecExited, api.ExecUnknown),
		values: func(e api.Exec) []any {
			return []any{string(e.ID), string(e.Sandbox), string(e.State), toMicros(e.StartedAt), toMicros(e.EndedAt)}
		},
	}}
}

// InsertExec implements store.Store.
func (t execTable) InsertExec(ctx context.Context, e api.Exec) error {
	args, err := t.args(e)
	if err != nil {
		return err
	}
	if done, err := t.ahead.put(ctx, record{insertExecOp, args}); done || err != nil {
		return err
	}
	r, err := t.db.insertExec.ExecContext(ctx, args...)
	if err != nil {
		return insertError(ctx, err, "exec", string(e.ID), "sandbox "+string(e.Sandbox))
	}
	if !changed(r) {
		return notFound("sandbox", string(e.Sandbox))
	}
	return nil
}

// UpdateExec implements store.Store.
func (t execTable) UpdateExec(ctx context.Context, e api.Exec) error {
	args, err := t.args(e)
	if err != nil {
		return err
	}
	if done, err := t.ahead.put(ctx, record{updateExecOp, args}); done || err != nil {
		return err
	}
	r, err := t.db.updateExec.ExecContext(ctx, args...)
	if err != nil {
		return wrapError(ctx, err, "store exec %s", e.ID)
	}
	if changed(r) {
		return nil
	}
	// Find out why it changed nothing.
	return t.db.inTx(ctx, "exec "+string(e.ID), func(tx *sql.Tx) error {
		var sandbox string
		err := tx.QueryRowContext(ctx, `SELECT sandbox FROM exec WHERE id = ?`, string(e.ID)).Scan(&sandbox)
		if err == nil && sandbox != string(e.Sandbox) {
			return api.Errorf(api.KindInvalid, "exec %s belongs to sandbox %s, not to %.64q", e.ID, sandbox, e.Sandbox)
		}
		return t.conflict(ctx, tx, string(e.ID), e.State)
	})
}

// Exec implements store.Store.
func (t execTable) Exec(ctx context.Context, id api.ExecID) (api.Exec, error) {
	return t.get(ctx, t.db.read, id)
}

// Execs implements store.Store.
func (t execTable) Execs(ctx context.Context, f store.ExecFilter) ([]api.Exec, error) {
	return t.list(ctx, t.db.read, execWhere(f), f.Limit)
}

// ExecPage implements store.Store.
func (t execTable) ExecPage(ctx context.Context, f store.ExecFilter) ([]api.Exec, store.Cursor, error) {
	return t.page(ctx, t.db.read, execWhere(f), f.Limit, f.After)
}

func execWhere(f store.ExecFilter) (w where) {
	w.equals("sandbox", string(f.Sandbox))
	in(&w, "state", f.States)
	return w
}

func scanExec(r scanner) (e api.Exec, err error) {
	err = scanRow(r, "exec", &e, &e.ID, &e.Sandbox, &e.State, instant{&e.StartedAt}, instant{&e.EndedAt})
	return e, err
}
