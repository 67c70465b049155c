package sessions

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

// Table has the rows of sessions and of their turns. It implements store.Sessions.
type Table struct {
	Read *sql.DB
	// InTx runs f in a transaction that holds the write lock.
	InTx func(ctx context.Context, what string, f func(*sql.Tx) error) error
	// InsertError and WrapError explain errors of the driver.
	InsertError func(ctx context.Context, err error, what, id, refersTo string) *api.Error
	WrapError   func(ctx context.Context, err error, format string, args ...any) *api.Error
}

var _ store.Sessions = Table{}

// readError explains why the session with an ID or a key could not be read.
func (t Table) readError(ctx context.Context, err error, name string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, sql.ErrNoRows):
		return api.Errorf(api.KindNotFound, "unknown session %.64q", name)
	}
	return t.WrapError(ctx, err, "read session %.64q", name)
}

// list reads all rows of a statement.
func list[T any](ctx context.Context, t Table, what string, scan func(Scanner) (T, error), query string, args ...any) (all []T, err error) {
	rows, err := t.Read.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, t.WrapError(ctx, err, "list %s", what)
	}
	defer rows.Close()
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, t.WrapError(ctx, err, "list %s", what)
		}
		all = append(all, v)
	}
	if err := rows.Err(); err != nil {
		return nil, t.WrapError(ctx, err, "list %s", what)
	}
	return all, nil
}

// InsertSession implements store.Store.
func (t Table) InsertSession(ctx context.Context, s store.Session, most int, turns ...store.SessionTurn) error {
	if err := check(s, turns); err != nil {
		return err
	}
	return t.InTx(ctx, "session "+string(s.ID), func(tx *sql.Tx) error {
		err := insert(ctx, tx, s, most, turns)
		var known *api.Error
		if err == nil || errors.As(err, &known) {
			return err
		}
		return t.InsertError(ctx, err, "session", s.Key, "owner "+string(s.Owner))
	})
}

// UpdateSession implements store.Store.
func (t Table) UpdateSession(ctx context.Context, owner api.OwnerID, s store.Session, turns ...store.SessionTurn) error {
	if err := check(s, turns); err != nil {
		return err
	}
	return t.InTx(ctx, "session "+string(s.ID), func(tx *sql.Tx) error {
		err := update(ctx, tx, owner, s, turns)
		if err == nil {
			return nil
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return t.InsertError(ctx, err, "session", string(s.ID), "owner "+string(s.Owner))
		}
		have, err := Scan(tx.QueryRowContext(ctx, oneSQL, string(s.ID)))
		switch {
		case err != nil:
			return t.readError(ctx, err, string(s.ID))
		case have.Closed:
			return api.Errorf(api.KindConflict, "session %s is closed", have.Key)
		}
		return api.Errorf(api.KindConflict, "session %s belongs to %s, not to %s", have.Key, have.Owner, owner)
	})
}

// Session implements store.Store.
func (t Table) Session(ctx context.Context, id api.SessionID) (store.Session, error) {
	s, err := Scan(t.Read.QueryRowContext(ctx, oneSQL, string(id)))
	return s, t.readError(ctx, err, string(id))
}

// SessionByKey implements store.Store.
func (t Table) SessionByKey(ctx context.Context, account, key string) (store.Session, error) {
	s, err := Scan(t.Read.QueryRowContext(ctx, keySQL, account, key))
	return s, t.readError(ctx, err, key)
}

// SessionsOf implements store.Store.
func (t Table) SessionsOf(ctx context.Context, account string, all bool, limit int) ([]store.Session, error) {
	if limit < 1 {
		return nil, api.Errorf(api.KindInvalid, "list sessions: the limit %d is not positive", limit)
	}
	closed := 0
	if all {
		closed = 1
	}
	return list(ctx, t, "sessions", Scan, listSQL, account, closed, limit)
}

// OpenSessions implements store.Store.
func (t Table) OpenSessions(ctx context.Context) ([]store.Session, error) {
	return list(ctx, t, "sessions", Scan, openSQL)
}

// SessionTurns implements store.Store.
func (t Table) SessionTurns(ctx context.Context, id api.SessionID) ([]store.SessionTurn, error) {
	return list(ctx, t, "turns of session "+string(id), ScanTurn, turnsSQL, string(id))
}

// PruneSessions implements store.Store.
func (t Table) PruneSessions(ctx context.Context, before time.Time) (n int, err error) {
	err = t.InTx(ctx, "the removal of closed sessions", func(tx *sql.Tx) error {
		if n, err = prune(ctx, tx, before); err != nil {
			return t.WrapError(ctx, err, "remove closed sessions")
		}
		return nil
	})
	return n, err
}
