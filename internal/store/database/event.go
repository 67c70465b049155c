package database

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

// A statement is a transaction, so no number is used twice, and none is visible before a smaller one. In
// the order of the primary key, the last one is one step away; for max, Postgres may read the whole stream. There a trigger locks
// the stream first and then finds the number.
const appendEventSQL = `
	INSERT INTO event (stream_kind, stream_id, seq, parent, at, type, data)
	SELECT $1, $2,
		1 + coalesce((SELECT seq FROM event WHERE stream_kind = $1 AND stream_id = $2 ORDER BY seq DESC LIMIT 1), 0),
		CASE WHEN $1 = 'sandbox' THEN coalesce($6, (SELECT task FROM sandbox WHERE id = $2)) END,
		CAST($3 AS BIGINT), $4, CAST($5 AS BYTEA)
	WHERE NOT EXISTS (SELECT 1 FROM owner WHERE id = $7 AND ended_at IS NOT NULL)
	RETURNING seq`

// sameEventSQL finds an event that is the same in all.
const sameEventSQL = `
	SELECT seq FROM event
	WHERE stream_kind = $1 AND stream_id = $2 AND at = $3 AND type = $4 AND data IS NOT DISTINCT FROM $5
	ORDER BY seq DESC LIMIT 1`

const readEventsSQL = `
	SELECT seq, at, type, data FROM event
	WHERE stream_kind = $1 AND stream_id = $2 AND seq > $3
	ORDER BY seq LIMIT $4`

// maxPage is the maximum size of a page of events, in bytes; the event that exceeds it is
// the last one of its page.
const maxPage = 1 << 20

// AppendEvent implements store.Store. A context that ends after the append began does not
// prevent it, so it is never in doubt whether a number was used.
func (db *DB) AppendEvent(ctx context.Context, s api.Stream, t api.EventType, at time.Time, data json.RawMessage) (int64, error) {
	if err := ctx.Err(); err != nil {
		return 0, wrapError(ctx, err, "store event %s of %s %.64q", t, s.Kind, s.ID)
	}
	ctx = context.WithoutCancel(ctx)
	var seq int64
	var parent any
	if s.Kind == api.StreamSandbox { // its row may not be in the database yet
		parent = db.ahead.taskOf(s.ID)
	}
	add := func() error {
		return db.appendEvent.queryRow(ctx, nil, string(s.Kind), s.ID, at.UnixMicro(), string(t), nilBytes(data), parent, writer(ctx)).Scan(&seq)
	}
	var err error
	if ends(t) {
		err = db.relieved(add)
	} else if err = db.mayGrow("an event"); err == nil {
		err = repeated(add)
	}
	if inDoubt(err) {
		e := api.Event{Stream: s, Type: t, At: at, Data: data}
		err = db.inTx(ctx, "an event", func(tx *sql.Tx) error { return db.appendOnce(ctx, tx, &e) })
		seq = e.Seq
	}
	if errors.Is(err, sql.ErrNoRows) {
		return 0, api.Errorf(api.KindConflict, "event %s of %s %.64q cannot be stored by %s, which has ended", t, s.Kind, s.ID, store.WriterOf(ctx))
	}
	if err != nil {
		return 0, wrapError(ctx, err, "store event %s of %s %.64q", t, s.Kind, s.ID)
	}
	return seq, nil
}

// writer is the owner whose events a context stores; nil for any.
func writer(ctx context.Context) any {
	if owner := store.WriterOf(ctx); owner != "" {
		return string(owner)
	}
	return nil
}

// stored returns the number of an event that was stored; 0 for none.
func (db *DB) stored(ctx context.Context, tx *sql.Tx, e *api.Event) (seq int64, err error) {
	if e != nil {
		err = tx.QueryRowContext(ctx, sameEventSQL, string(e.Stream.Kind), e.Stream.ID, e.At.UnixMicro(), string(e.Type), nilBytes(e.Data)).Scan(&seq)
	}
	return seq, err
}

// appendOnce is appendIn for an event that nobody knows to be stored or not. What stores it, if the server still does, has the lock of
// the stream.
func (db *DB) appendOnce(ctx context.Context, tx *sql.Tx, e *api.Event) error {
	if err := db.lock(ctx, tx, "event", string(e.Stream.Kind), e.Stream.ID); err != nil {
		return err
	}
	err := tx.QueryRowContext(ctx, sameEventSQL, string(e.Stream.Kind), e.Stream.ID, e.At.UnixMicro(), string(e.Type), nilBytes(e.Data)).Scan(&e.Seq)
	if !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	return db.appendIn(ctx, tx, e)
}

// nilBytes is the data of an event as it is stored: NULL for none.
func nilBytes(data json.RawMessage) any {
	if data == nil {
		return nil
	}
	return []byte(data)
}

// appendIn appends an event in a transaction, and sets its number.
func (db *DB) appendIn(ctx context.Context, tx *sql.Tx, e *api.Event) error {
	return db.appendEvent.queryRow(ctx, tx,
		string(e.Stream.Kind), e.Stream.ID, e.At.UnixMicro(), string(e.Type), []byte(e.Data), nil, writer(ctx)).Scan(&e.Seq)
}

// ends reports whether an event says that something ended. Such events are few and small, and a
// full disk must not prevent an end.
func ends(t api.EventType) bool {
	return t == api.EventSandboxState || t == api.EventExecEnded || t == api.EventTaskCancel || t == api.EventTaskFinished
}

// ReadEvents implements store.Store.
func (db *DB) ReadEvents(ctx context.Context, s api.Stream, after int64, limit int) ([]api.Event, error) {
	if limit < 1 {
		return nil, api.Errorf(api.KindInvalid, "read events of %s %.64q: the limit %d is not positive", s.Kind, s.ID, limit)
	}
	fail := func(err error) error { return wrapError(ctx, err, "read events of %s %.64q", s.Kind, s.ID) }
	rows, err := db.readEvents.query(ctx, string(s.Kind), s.ID, after, limit)
	if err != nil {
		return nil, fail(err)
	}
	defer rows.Close()
	var page []api.Event
	for size := 0; size < maxPage && rows.Next(); {
		e := api.Event{Stream: s}
		var at int64
		var data []byte
		if err := rows.Scan(&e.Seq, &at, &e.Type, &data); err != nil {
			return nil, fail(err)
		}
		e.At = time.UnixMicro(at).UTC()
		e.Data = data
		size += len(data)
		page = append(page, e)
	}
	if err := rows.Err(); err != nil {
		return nil, fail(err)
	}
	return page, nil
}

const (
	selectExecSQL = `
		SELECT doc, id, sandbox, state, started_at, ended_at FROM exec`
	insertExecSQL = `
		INSERT INTO exec (id, sandbox, owner, host, lease_epoch, state, started_at, ended_at, doc)
		SELECT $1, id, owner, host, lease_epoch, $3, CAST($4 AS BIGINT), CAST($5 AS BIGINT), $6 FROM sandbox WHERE id = $2 FOR SHARE`
	updateExecSQL = `
		UPDATE exec
		SET state = $3, started_at = $4, ended_at = $5, doc = $6
		WHERE id = $1 AND sandbox = $2 AND (state = $3 OR state NOT IN ('exited', 'unknown'))`
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
	if err := db.mayGrow("exec " + string(e.ID)); err != nil {
		return err
	}
	found := true
	err = db.insertOnce(ctx, func() error {
		r, err := db.insertExec.exec(ctx, nil, args...)
		found = err != nil || changed(r)
		return err
	})
	if err != nil {
		return insertError(ctx, err, "exec", string(e.ID), "sandbox "+string(e.Sandbox))
	}
	if !found {
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
	r, err := db.execRelieved(ctx, func() (sql.Result, error) { return db.updateExec.exec(ctx, nil, args...) })
	if err != nil {
		return wrapError(ctx, err, "store exec %s", e.ID)
	}
	if changed(r) {
		return nil
	}
	// Find out why it changed nothing.
	return db.inTx(ctx, "exec "+string(e.ID), func(tx *sql.Tx) error {
		var sandbox string
		err := tx.QueryRowContext(ctx, `SELECT sandbox FROM exec WHERE id = $1`, string(e.ID)).Scan(&sandbox)
		if err == nil && sandbox != string(e.Sandbox) {
			return api.Errorf(api.KindInvalid, "exec %s belongs to sandbox %s, not to %.64q", e.ID, sandbox, e.Sandbox)
		}
		return db.execs.final(ctx, tx, string(e.ID), e.State)
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
