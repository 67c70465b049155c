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

// InsertKey implements store.Store.
func (db keyTable) InsertKey(ctx context.Context, k api.Key, hash string) error {
	switch {
	case hash == "":
		return api.Errorf(api.KindInvalid, "row of key %s: the hash is missing", k.ID)
	case k.Account == "":
		return api.Errorf(api.KindInvalid, "row of key %s: the account is missing", k.ID)
	}
	if err := checkRow("key", string(k.ID), !k.CreatedAt.IsZero(), string(k.Role), string(api.RoleAdmin), string(api.RoleUser)); err != nil {
		return err
	}
	doc, err := rowjson.Marshal(k)
	if err != nil {
		return api.Errorf(api.KindInvalid, "key %s: %w", k.ID, err)
	}
	_, err = db.write.ExecContext(ctx, `INSERT INTO api_key (id, hash, account, created_at, revoked_at, doc) VALUES (?, ?, ?, ?, ?, ?)`,
		string(k.ID), hash, k.Account, toMicros(k.CreatedAt), toMicros(k.RevokedAt), string(doc))
	if err != nil {
		return insertError(ctx, err, "key", string(k.ID), "nothing")
	}
	return nil
}

// RevokeKey implements store.Store.
func (db keyTable) RevokeKey(ctx context.Context, id api.KeyID, at time.Time) (k api.Key, err error) {
	if at.IsZero() {
		return k, api.Errorf(api.KindInvalid, "key %s: the time of its revocation is missing", id)
	}
	err = db.inTx(ctx, "key "+string(id), func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE api_key SET revoked_at = ?2 WHERE id = ?1 AND revoked_at IS NULL`, string(id), toMicros(at))
		if err != nil {
			return wrapError(ctx, err, "revoke key %.64q", id)
		}
		k, err = get(ctx, tx, "key", string(id), scanKey, `SELECT `+keyColumns+` FROM api_key WHERE id = ?`)
		return err
	})
	return k, err
}

// KeyByHash implements store.Store.
func (db keyTable) KeyByHash(ctx context.Context, hash string) (api.Key, error) {
	return get(ctx, db.read, "key", hash, scanKey, `SELECT `+keyColumns+` FROM api_key WHERE hash = ?`)
}

func keyWhere(f store.KeyFilter) (w where) {
	w.equals("account", f.Account)
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
	k.CreatedAt, k.RevokedAt = fromMicros(created), fromMicros(revoked)
	return k, nil
}
