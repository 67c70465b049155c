package sqlite

import (
	"context"
	"database/sql"
	"time"

	"hortus.dev/api"
)

const (
	selectExecSQL = `
		SELECT doc, id, sandbox, state, started_at, ended_at FROM exec`
	insertExecSQL = `
		INSERT INTO exec (id, sandbox, owner, host, lease_epoch, state, started_at, ended_at, doc)
		SELECT ?1, id, owner, host, lease_epoch, ?3, ?4, ?5, ?6 FROM sandbox WHERE id = ?2`
	updateExecSQL = `
		UPDATE exec
		SET state = ?3, started_at = ?4, ended_at = ?5, doc = ?6
		WHERE id = ?1 AND sandbox = ?2 AND (state = ?3 OR state NOT IN ('exited', 'unknown'))`
)

func execTable(db *DB) table[api.Exec, api.ExecID] {
	return table[api.Exec, api.ExecID]{
		db: db, ahead: db.ahead, what: "exec", plural: "execs", name: "exec", start: "started_at",
		selectSQL: selectExecSQL, // inserts and updates are prepared
		scan: func(r scanner) (e api.Exec, err error) {
			err = scanRow(r, "exec", &e, &e.ID, &e.Sandbox, &e.State, instant{&e.StartedAt}, instant{&e.EndedAt})
			return e, err
		},
		mark:   func(e api.Exec) (time.Time, api.ExecID) { return e.StartedAt, e.ID },
		states: names(api.ExecRunning, api.ExecExited, api.ExecUnknown),
		values: func(e api.Exec) []any {
			return []any{string(e.ID), string(e.Sandbox), string(e.State), toMicros(e.StartedAt), toMicros(e.EndedAt)}
		},
	}
}

// InsertExec implements store.Store.
func (db *DB) InsertExec(ctx context.Context, e api.Exec) error {
	args, err := db.execs.args(e)
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
func (db *DB) UpdateExec(ctx context.Context, e api.Exec) error {
	args, err := db.execs.args(e)
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
			return api.Errorf(api.KindInvalid, "exec %s belongs to sandbox %s, not to %.64q", e.ID, sandbox, e.Sandbox)
		}
		return db.execs.conflict(ctx, tx, string(e.ID), e.State)
	})
}

// Exec implements store.Store.
func (db *DB) Exec(ctx context.Context, id api.ExecID) (api.Exec, error) {
	return db.execs.get(ctx, db.read, id)
}

// ListExecs implements store.Store.
func (db *DB) ListExecs(ctx context.Context, sandbox api.SandboxID) ([]api.Exec, error) {
	return db.execs.list(ctx, db.read, execsOf(sandbox), 0)
}

// ExecPage implements store.Store.
func (db *DB) ExecPage(ctx context.Context, sandbox api.SandboxID, p api.PageRequest) ([]api.Exec, string, error) {
	return db.execs.page(ctx, execsOf(sandbox), p)
}

func execsOf(sandbox api.SandboxID) where {
	return where{[]string{"sandbox = ?"}, []any{string(sandbox)}}
}
