package sqlite

import (
	"context"
	"database/sql"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store"
	"hortus.dev/internal/store/rowjson"
)

const keyColumns = `id, account, created_at, revoked_at, doc`

// InsertKey stores a new API key under the hash of its secret. KindExists for an
// id or a hash that is there already.
func (db keyTable) InsertKey(ctx context.Context, k api.Key, hash string) error {
	switch {
	case hash == "":
		return api.Errorf(api.KindInvalid, "a row for key %s without a hash", k.ID)
	case k.Account == "":
		return api.Errorf(api.KindInvalid, "a row for key %s without an account", k.ID)
	}
	if err := complete("key", string(k.ID), !k.CreatedAt.IsZero(), string(k.Role), string(api.RoleAdmin), string(api.RoleUser)); err != nil {
		return err
	}
	doc, err := rowjson.Marshal(k)
	if err != nil {
		return api.Errorf(api.KindInvalid, "key %s: %w", k.ID, err)
	}
	_, err = db.write.ExecContext(ctx, `INSERT INTO api_key (id, hash, account, created_at, revoked_at, doc) VALUES (?, ?, ?, ?, ?, ?)`,
		string(k.ID), hash, k.Account, micros(k.CreatedAt), micros(k.RevokedAt), string(doc))
	if err != nil {
		return insertFailed(ctx, err, "key", string(k.ID), "nothing")
	}
	return nil
}

// RevokeKey notes that a key does not work any more, and gives it. One that was
// revoked before keeps its time.
func (db keyTable) RevokeKey(ctx context.Context, id api.KeyID, at time.Time) (k api.Key, err error) {
	if at.IsZero() {
		return k, api.Errorf(api.KindInvalid, "key %s is revoked at no time", id)
	}
	err = db.inTx(ctx, "key "+string(id), func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE api_key SET revoked_at = ?2 WHERE id = ?1 AND revoked_at IS NULL`, string(id), micros(at))
		if err != nil {
			return failed(ctx, err, "revoke key %.64q", id)
		}
		k, err = get(ctx, tx, "key", string(id), scanKey, `SELECT `+keyColumns+` FROM api_key WHERE id = ?`)
		return err
	})
	return k, err
}

// KeyByHash finds the key that was stored under a hash, revoked or not.
func (db keyTable) KeyByHash(ctx context.Context, hash string) (api.Key, error) {
	return get(ctx, db.read, "key", hash, scanKey, `SELECT `+keyColumns+` FROM api_key WHERE hash = ?`)
}

func keyWhere(f store.KeyFilter) (w where) {
	w.is("account", f.Account)
	if f.Working {
		w.conds = append(w.conds, "revoked_at IS NULL")
	}
	return w
}

func scanKey(r scanner) (k api.Key, err error) {
	var id, account, doc string
	var created, revoked sql.NullInt64
	if err := r.Scan(&id, &account, &created, &revoked, &doc); err != nil {
		return k, err
	}
	if err := rowjson.Unmarshal([]byte(doc), &k); err != nil {
		return k, api.Errorf(api.KindInternal, "the row of key %s is damaged: %w", id, err)
	}
	k.ID, k.Account = api.KeyID(id), account
	k.CreatedAt, k.RevokedAt = instant(created), instant(revoked)
	return k, nil
}
