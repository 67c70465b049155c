package sqlite

import (
	"context"
	"database/sql"
	"errors"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

// BeginOnce implements store.Store.
func (db onceTable) BeginOnce(ctx context.Context, o store.Once, most int) (have store.Once, begun bool, err error) {
	if o.Key == "" || len(o.Request) == 0 || o.CreatedAt.IsZero() || !o.ExpiresAt.After(o.CreatedAt) || most < 1 {
		return have, false, api.Errorf(api.KindInvalid, "a row for an idempotency key needs the key, its request and times")
	}
	err = db.inTx(ctx, "key", func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `DELETE FROM once WHERE expires_at <= ?`, toMicros(o.CreatedAt)); err != nil {
			return wrapError(ctx, err, "remove keys that have expired")
		}
		have, err = scanOnce(tx.QueryRowContext(ctx, `SELECT account, key, request, done, answer, created_at, expires_at
			FROM once WHERE account = ? AND key = ?`, o.Account, o.Key))
		if err == nil {
			return nil
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return wrapError(ctx, err, "read key")
		}
		_, err = tx.ExecContext(ctx, `DELETE FROM once WHERE account = ?1 AND done = 1 AND seq NOT IN
			(SELECT seq FROM once WHERE account = ?1 ORDER BY seq DESC LIMIT ?2)`, o.Account, most-1)
		if err != nil {
			return wrapError(ctx, err, "remove old keys")
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO once (account, key, request, done, created_at, expires_at) VALUES (?, ?, ?, 0, ?, ?)`,
			o.Account, o.Key, o.Request, toMicros(o.CreatedAt), toMicros(o.ExpiresAt))
		if err != nil {
			return wrapError(ctx, err, "store key")
		}
		begun = true
		return nil
	})
	return have, begun && err == nil, err
}

// EndOnce implements store.Store.
func (db onceTable) EndOnce(ctx context.Context, o store.Once) error {
	r, err := db.write.ExecContext(ctx, `UPDATE once SET done = 1, answer = ? WHERE account = ? AND key = ? AND done = 0`,
		o.Answer, o.Account, o.Key)
	if err != nil {
		return wrapError(ctx, err, "store the answer under a key")
	}
	if !changed(r) {
		return notFound("key", o.Key)
	}
	return nil
}

// ForgetOnce implements store.Store.
func (db onceTable) ForgetOnce(ctx context.Context, account, key string) error {
	if _, err := db.write.ExecContext(ctx, `DELETE FROM once WHERE account = ? AND key = ? AND done = 0`, account, key); err != nil {
		return wrapError(ctx, err, "remove a key")
	}
	return nil
}

func scanOnce(r scanner) (o store.Once, err error) {
	err = r.Scan(&o.Account, &o.Key, &o.Request, &o.Done, &o.Answer, instant{&o.CreatedAt}, instant{&o.ExpiresAt})
	return o, err
}
