package database

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

const (
	selectSessionSQL = `
		SELECT id, account, key, owner, closed, created_at, ended_at, doc
		FROM session`
	insertSessionSQL = `
		INSERT INTO session (id, account, key, owner, closed, created_at, ended_at, doc)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
		RETURNING seq`
	updateSessionSQL = `
		UPDATE session
		SET owner = $3, closed = $4, ended_at = $5, doc = $6
		WHERE id = $1 AND owner = $2 AND closed = 0
		RETURNING seq`
	putTurnSQL = `
		INSERT INTO session_turn (session, n, doc)
		VALUES ($1, $2, $3)
		ON CONFLICT (session, n) DO UPDATE SET doc = $3`
	removeSessionEventsSQL = `
		DELETE FROM event
		WHERE stream_kind = 'session'
			AND stream_id IN (SELECT id FROM session WHERE closed = 1 AND ended_at < $1)`
	removeSessionsSQL = `
		DELETE FROM session WHERE closed = 1 AND ended_at < $1`
)

func scanSession(r scanner) (s store.Session, err error) {
	err = r.Scan(&s.ID, &s.Account, &s.Key, &s.Owner, &s.Closed, instant{&s.CreatedAt}, instant{&s.EndedAt}, &s.Doc)
	return s, err
}

func scanTurn(r scanner) (t store.SessionTurn, err error) {
	err = r.Scan(&t.N, &t.Doc)
	return t, err
}

// checkSession refuses what cannot be stored.
func checkSession(s store.Session, turns []store.SessionTurn) error {
	switch {
	case s.ID == "" || s.Key == "" || s.Owner == "" || s.CreatedAt.IsZero() || len(s.Doc) == 0:
		return api.Errorf(api.KindInvalid, "a session needs an id, a key, an owner, a start time and a document")
	case s.Closed == s.EndedAt.IsZero():
		return api.Errorf(api.KindInvalid, "session %s: it is closed if it has an end time, and only then", s.ID)
	case len(s.Doc) > store.MaxSessionDoc:
		return api.Errorf(api.KindExhausted, "the document of session %s has %d bytes; the maximum is %d", s.ID, len(s.Doc), store.MaxSessionDoc)
	}
	for _, t := range turns {
		if t.N < 1 || len(t.Doc) == 0 || len(t.Doc) > store.MaxSessionDoc {
			return api.Errorf(api.KindInvalid, "turn %d of session %s: its number or its document is out of range", t.N, s.ID)
		}
	}
	return nil
}

// InsertSession implements store.Store.
func (db *DB) InsertSession(ctx context.Context, s store.Session, most int, turns ...store.SessionTurn) error {
	if err := checkSession(s, turns); err != nil {
		return err
	}
	return db.growTx(ctx, "session "+string(s.ID), func(tx *sql.Tx) error {
		if err := db.lock(ctx, tx, "sessions", s.Account); err != nil {
			return err
		}
		var others int
		err := tx.QueryRowContext(ctx, `SELECT count(*) FROM session WHERE account = $1 AND closed = 0`, s.Account).Scan(&others)
		if err != nil {
			return wrapError(ctx, err, "count sessions")
		}
		var seq int64
		err = tx.QueryRowContext(ctx, insertSessionSQL, string(s.ID), s.Account, s.Key, string(s.Owner), s.Closed,
			toMicros(s.CreatedAt), toMicros(s.EndedAt), s.Doc).Scan(&seq)
		if err != nil {
			return insertError(ctx, err, "session", s.Key, "owner "+string(s.Owner))
		}
		if others >= most {
			return api.Errorf(api.KindExhausted, "the account has %d sessions, which is the maximum", others).WithHint("close one: hortus session close KEY")
		}
		return putTurns(ctx, tx, s, seq, turns)
	})
}

// UpdateSession implements store.Store.
func (db *DB) UpdateSession(ctx context.Context, owner api.OwnerID, s store.Session, turns ...store.SessionTurn) error {
	if err := checkSession(s, turns); err != nil {
		return err
	}
	return db.sameTx(ctx, "session "+string(s.ID), func(tx *sql.Tx, doubt bool) error {
		var seq int64
		err := tx.QueryRowContext(ctx, updateSessionSQL, string(s.ID), string(owner), string(s.Owner), s.Closed, toMicros(s.EndedAt), s.Doc).Scan(&seq)
		if err == nil {
			return putTurns(ctx, tx, s, seq, turns)
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return insertError(ctx, err, "session", string(s.ID), "owner "+string(s.Owner))
		}
		have, err := get(ctx, tx, "session", string(s.ID), scanSession, selectSessionSQL+` WHERE id = $1`)
		switch {
		case err != nil || doubt && have.Owner == s.Owner && bytes.Equal(have.Doc, s.Doc):
			return err
		case have.Closed:
			return api.Errorf(api.KindConflict, "session %s is closed", have.Key)
		}
		return api.Errorf(api.KindConflict, "session %s belongs to %s, not to %s", have.Key, have.Owner, owner)
	})
}

func putTurns(ctx context.Context, tx *sql.Tx, s store.Session, seq int64, turns []store.SessionTurn) error {
	for _, t := range turns {
		if _, err := tx.ExecContext(ctx, putTurnSQL, seq, t.N, t.Doc); err != nil {
			return wrapError(ctx, err, "store turn %d of session %s", t.N, s.ID)
		}
	}
	return nil
}

// Session implements store.Store.
func (db *DB) Session(ctx context.Context, id api.SessionID) (store.Session, error) {
	return get(ctx, db.read, "session", string(id), scanSession, selectSessionSQL+` WHERE id = $1`)
}

// SessionByKey implements store.Store.
func (db *DB) SessionByKey(ctx context.Context, account, key string) (store.Session, error) {
	s, err := scanSession(db.read.QueryRowContext(ctx, selectSessionSQL+` WHERE account = $1 AND key = $2 AND closed = 0`, account, key))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return s, notFound("session", key)
	case err != nil:
		return s, wrapError(ctx, err, "read session %.64q", key)
	}
	return s, nil
}

// SessionsOf implements store.Store.
func (db *DB) SessionsOf(ctx context.Context, account string, all bool, limit int) ([]store.Session, error) {
	if limit < 1 {
		return nil, api.Errorf(api.KindInvalid, "list sessions: the limit %d is not positive", limit)
	}
	return list(ctx, db.read, "sessions", scanSession, selectSessionSQL+`
		WHERE account = $1 AND ($2 = 1 OR closed = 0)
		ORDER BY seq DESC LIMIT $3`, account, all, limit)
}

// OpenSessions implements store.Store.
func (db *DB) OpenSessions(ctx context.Context) ([]store.Session, error) {
	return list(ctx, db.read, "sessions", scanSession, selectSessionSQL+`
		WHERE closed = 0
		ORDER BY seq`)
}

// SessionTurns implements store.Store.
func (db *DB) SessionTurns(ctx context.Context, id api.SessionID) ([]store.SessionTurn, error) {
	return list(ctx, db.read, "turns of session "+string(id), scanTurn, `
		SELECT n, doc FROM session_turn
		WHERE session = (SELECT seq FROM session WHERE id = $1)
		ORDER BY n`, string(id))
}

// PruneSessions implements store.Store.
func (db *DB) PruneSessions(ctx context.Context, before time.Time) (n int, err error) {
	var events int
	err = db.inTx(ctx, "the removal of closed sessions", func(tx *sql.Tx) error {
		n = 0 // it may run again
		if err := (removal{removeSessionEventsSQL, &events}).run(ctx, tx, before.UnixMicro()); err != nil {
			return err
		}
		return removal{removeSessionsSQL, &n}.run(ctx, tx, before.UnixMicro())
	})
	return n, err
}
