package database

import (
	"context"
	"database/sql"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

// InsertSignIn implements store.Store.
func (db *DB) InsertSignIn(ctx context.Context, s store.SignIn, createdAfter, usedAfter time.Time, most int) error {
	if s.Hash == "" || s.Key == "" || s.CreatedAt.IsZero() || s.UsedAt.IsZero() || most < 1 {
		return api.Errorf(api.KindInvalid, "a sign-in needs a hash, a key and times")
	}
	return db.growTx(ctx, "sign-in", func(tx *sql.Tx) error {
		if err := db.lock(ctx, tx, "sign-ins", string(s.Key)); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `DELETE FROM sign_in WHERE created_at < $1 OR used_at < $2`, toMicros(createdAfter), toMicros(usedAfter))
		if err == nil {
			_, err = tx.ExecContext(ctx, `
				DELETE FROM sign_in
				WHERE key = $1 AND seq <= (SELECT seq FROM sign_in WHERE key = $1 ORDER BY seq DESC LIMIT 1 OFFSET $2)`, string(s.Key), most-1)
		}
		if err != nil {
			return wrapError(ctx, err, "remove old sign-ins")
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO sign_in (hash, key, created_at, used_at) VALUES ($1, $2, $3, $4)`,
			s.Hash, string(s.Key), toMicros(s.CreatedAt), toMicros(s.UsedAt))
		if err != nil {
			return insertError(ctx, err, "sign-in", "", "")
		}
		return nil
	})
}

// SignIn implements store.Store.
func (db *DB) SignIn(ctx context.Context, hash string) (store.SignIn, error) {
	scan := func(r scanner) (s store.SignIn, err error) {
		err = r.Scan(&s.Hash, &s.Key, instant{&s.CreatedAt}, instant{&s.UsedAt})
		return s, err
	}
	return get(ctx, db.read, "sign-in", hash, scan, `SELECT hash, key, created_at, used_at FROM sign_in WHERE hash = $1`)
}

// UseSignIn implements store.Store.
func (db *DB) UseSignIn(ctx context.Context, hash string, at time.Time) error {
	if _, err := db.write.ExecContext(ctx, `UPDATE sign_in SET used_at = $1 WHERE hash = $2`, toMicros(at), hash); err != nil {
		return wrapError(ctx, err, "note the use of a sign-in")
	}
	return nil
}

// RemoveSignIn implements store.Store.
func (db *DB) RemoveSignIn(ctx context.Context, hash string) error {
	return db.relieved(func() error {
		if _, err := db.write.ExecContext(ctx, `DELETE FROM sign_in WHERE hash = $1`, hash); err != nil {
			return wrapError(ctx, err, "remove a sign-in")
		}
		return nil
	})
}
