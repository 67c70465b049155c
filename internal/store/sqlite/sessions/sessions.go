package sessions

import (
	"context"
	"database/sql"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

const (
	columns = `id, account, key, owner, closed, created_at, ended_at, doc`
	// oneSQL reads the session with an id, keySQL the one of an account with a key that is not closed.
	oneSQL = `SELECT ` + columns + ` FROM session WHERE id = ?`
	keySQL = `SELECT ` + columns + ` FROM session WHERE account = ? AND key = ? AND closed = 0`
	// listSQL lists those of an account, closed ones if the second value is 1, at most as many as the third.
	listSQL = `SELECT ` + columns + ` FROM session WHERE account = ?1 AND closed <= ?2 ORDER BY seq DESC LIMIT ?3`
	// openSQL lists all that are not closed.
	openSQL = `SELECT ` + columns + ` FROM session WHERE closed = 0 ORDER BY seq`
	// turnsSQL lists the turns of the session with an id.
	turnsSQL = `SELECT n, doc FROM session_turn WHERE session = (SELECT seq FROM session WHERE id = ?) ORDER BY n`

	countSQL  = `SELECT count(*) FROM session WHERE account = ? AND closed = 0`
	insertSQL = `INSERT INTO session (id, account, key, owner, closed, created_at, ended_at, doc) VALUES (?, ?, ?, ?, ?, ?, ?, ?) RETURNING seq`
	updateSQL = `UPDATE session SET owner = ?3, closed = ?4, ended_at = ?5, doc = ?6 WHERE id = ?1 AND owner = ?2 AND closed = 0 RETURNING seq`
	turnSQL   = `INSERT INTO session_turn (session, n, doc) VALUES (?1, ?2, ?3) ON CONFLICT (session, n) DO UPDATE SET doc = ?3`
	eventsSQL = `DELETE FROM event WHERE stream_kind = 'session' AND stream_id IN (SELECT id FROM session WHERE closed = 1 AND ended_at < ?)`
	pruneSQL  = `DELETE FROM session WHERE closed = 1 AND ended_at < ?`
)

// Scanner is a row.
type Scanner interface{ Scan(...any) error }

// Scan reads a session.
func Scan(s Scanner) (v store.Session, err error) {
	var created int64
	var ended sql.NullInt64
	err = s.Scan(&v.ID, &v.Account, &v.Key, &v.Owner, &v.Closed, &created, &ended, &v.Doc)
	v.CreatedAt = time.UnixMicro(created).UTC()
	if ended.Valid {
		v.EndedAt = time.UnixMicro(ended.Int64).UTC()
	}
	return v, err
}

// ScanTurn reads a turn.
func ScanTurn(s Scanner) (v store.SessionTurn, err error) {
	err = s.Scan(&v.N, &v.Doc)
	return v, err
}

// check refuses what cannot be stored.
func check(s store.Session, turns []store.SessionTurn) error {
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

func micros(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMicro()
}

// insert stores a session with turns.
func insert(ctx context.Context, tx *sql.Tx, s store.Session, most int, turns []store.SessionTurn) error {
	var n int
	if err := tx.QueryRowContext(ctx, countSQL, s.Account).Scan(&n); err != nil {
		return err
	}
	var seq int64
	err := tx.QueryRowContext(ctx, insertSQL, string(s.ID), s.Account, s.Key, string(s.Owner), s.Closed, s.CreatedAt.UnixMicro(), micros(s.EndedAt), s.Doc).Scan(&seq)
	if err != nil {
		return err
	}
	if n >= most {
		return api.Errorf(api.KindExhausted, "the account has %d sessions, which is the maximum", n).WithHint("close one: hortus session close KEY")
	}
	return putTurns(ctx, tx, seq, turns)
}

// update replaces the row of a session of an owner, and stores turns. sql.ErrNoRows if there is none that is not closed.
func update(ctx context.Context, tx *sql.Tx, owner api.OwnerID, s store.Session, turns []store.SessionTurn) error {
	var seq int64
	err := tx.QueryRowContext(ctx, updateSQL, string(s.ID), string(owner), string(s.Owner), s.Closed, micros(s.EndedAt), s.Doc).Scan(&seq)
	if err != nil {
		return err
	}
	return putTurns(ctx, tx, seq, turns)
}

func putTurns(ctx context.Context, tx *sql.Tx, seq int64, turns []store.SessionTurn) error {
	for _, t := range turns {
		if _, err := tx.ExecContext(ctx, turnSQL, seq, t.N, t.Doc); err != nil {
			return err
		}
	}
	return nil
}

// prune removes sessions that were closed before a time, with their turns and events.
func prune(ctx context.Context, tx *sql.Tx, before time.Time) (int, error) {
	if _, err := tx.ExecContext(ctx, eventsSQL, before.UnixMicro()); err != nil {
		return 0, err
	}
	r, err := tx.ExecContext(ctx, pruneSQL, before.UnixMicro())
	if err != nil {
		return 0, err
	}
	n, err := r.RowsAffected()
	return int(n), err
}
