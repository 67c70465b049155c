package database

import (
	"context"
	"database/sql"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store/rowjson"
)

const (
	selectHookSQL = `SELECT doc, cause, repository, at, state, task FROM hook_event`
	insertHookSQL = `INSERT INTO hook_event (repository, cause, at, state, task, doc) VALUES ($1, $2, $3, $4, $5, $6)`
	updateHookSQL = `UPDATE hook_event SET state = $4, task = $5, doc = $6 WHERE repository = $1 AND cause = $2 AND at = $3`
	trimHookSQL   = `DELETE FROM hook_event WHERE repository = $1 AND at < $2 AND state NOT IN ('starting', 'started')`
	// The first row of a day that was refused for the budget stays: it says that the comment about that was written.
	trimRefused = `
		DELETE FROM hook_event WHERE repository = $1 AND state = 'refused' AND at <= (
			SELECT at FROM hook_event WHERE repository = $1 AND state = 'refused' ORDER BY at DESC LIMIT 1 OFFSET $2)
		AND at NOT IN (
			SELECT min(at) FROM hook_event WHERE repository = $1 AND state = 'refused' AND over_budget IS NOT NULL GROUP BY at / 86400000000)`
	trimHookLogSQL = `
		DELETE FROM event WHERE stream_kind = 'hook' AND stream_id = $1 AND seq <= (
			SELECT max(seq) - 1000 FROM event WHERE stream_kind = 'hook' AND stream_id = $1)`
)

func scanHookEvent(r scanner) (e api.HookEvent, err error) {
	err = scanRow(r, "hook event", &e, &e.Cause, &e.Repository, instant{&e.At}, &e.State, text(&e.Task))
	return e, err
}

func hookArgs(e api.HookEvent) ([]any, error) {
	if e.Repository == "" || e.Cause == "" || e.At.IsZero() || e.State == "" {
		return nil, api.Errorf(api.KindInvalid, "an event of a hook needs a repository, a cause, a time and a state")
	}
	doc, err := rowjson.Marshal(e)
	if err != nil {
		return nil, api.Errorf(api.KindInvalid, "event %.80q of a hook: %w", e.Cause, err)
	}
	return []any{string(e.Repository), e.Cause, toMicros(e.At), string(e.State), nullable(e.Task), string(doc)}, nil
}

// InsertHookEvent implements store.Store.
func (db *DB) InsertHookEvent(ctx context.Context, e api.HookEvent, before time.Time, most int) error {
	args, err := hookArgs(e)
	if err != nil {
		return err
	}
	return db.growTx(ctx, "event of a hook", func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, insertHookSQL, args...); err != nil {
			return insertError(ctx, err, "hook event", e.Cause, "repository "+string(e.Repository))
		}
		_, err := tx.ExecContext(ctx, trimHookSQL, string(e.Repository), before.UnixMicro())
		if err == nil {
			_, err = tx.ExecContext(ctx, trimRefused, string(e.Repository), most)
		}
		if err == nil {
			_, err = tx.ExecContext(ctx, trimHookLogSQL, string(e.Repository))
		}
		if err != nil {
			return wrapError(ctx, err, "remove old events of a hook")
		}
		return nil
	})
}

// UpdateHookEvent implements store.Store.
func (db *DB) UpdateHookEvent(ctx context.Context, e api.HookEvent) error {
	args, err := hookArgs(e)
	if err != nil {
		return err
	}
	return db.inTx(ctx, "event of a hook", func(tx *sql.Tx) error {
		var was api.HookEventState
		err := tx.QueryRowContext(ctx, db.dialect.adapt(`SELECT state FROM hook_event WHERE repository = $1 AND cause = $2 FOR UPDATE`), string(e.Repository), e.Cause).Scan(&was)
		switch {
		case err == sql.ErrNoRows:
			return notFound("hook event", e.Cause)
		case err != nil:
			return wrapError(ctx, err, "read event %.80q of a hook", e.Cause)
		case was != e.State && !api.NextHookEventState(was, e.State):
			return api.Errorf(api.KindConflict, "event %.80q of a hook is %s; it cannot become %s", e.Cause, was, e.State)
		}
		if _, err := tx.ExecContext(ctx, updateHookSQL, args...); err != nil {
			return wrapError(ctx, err, "store event %.80q of a hook", e.Cause)
		}
		return nil
	})
}

// HookEvent implements store.Store.
func (db *DB) HookEvent(ctx context.Context, repository api.RepositoryID, cause string) (api.HookEvent, error) {
	e, err := scanHookEvent(db.read.QueryRowContext(ctx, selectHookSQL+` WHERE repository = $1 AND cause = $2`, string(repository), cause))
	if err == sql.ErrNoRows {
		return e, notFound("hook event", cause)
	}
	if err != nil {
		return e, wrapError(ctx, err, "read event %.80q of a hook", cause)
	}
	return e, nil
}

// HookEventsOf implements store.Store.
func (db *DB) HookEventsOf(ctx context.Context, repository api.RepositoryID, since time.Time, limit int) ([]api.HookEvent, error) {
	w := where{[]string{"repository = ?"}, []any{string(repository)}}
	w.since("at", since)
	q, args := w.query(selectHookSQL, "at DESC, rowid DESC", limit)
	return list(ctx, db.read, "events of a hook", scanHookEvent, q, args...)
}

// OpenHookEvents implements store.Store.
func (db *DB) OpenHookEvents(ctx context.Context) ([]api.HookEvent, error) {
	return list(ctx, db.read, "events of hooks", scanHookEvent, selectHookSQL+` WHERE state IN ('starting', 'started') ORDER BY at`)
}
