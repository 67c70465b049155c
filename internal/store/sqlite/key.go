package sqlite

import (
	"context"
	"database/sql"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

type keyTable struct {
	table[api.Key, api.KeyID]
}

func newKeyTable(db *database) keyTable {
	return keyTable{table[api.Key, api.KeyID]{
		db: db, what: "key", plural: "keys", name: "api_key", letter: "k", at: "created_at",
		columns: `doc, id, account, created_at, revoked_at`, scan: scanKey,
		mark:   func(k api.Key) (time.Time, api.KeyID) { return k.CreatedAt, k.ID },
		states: names(api.RoleAdmin, api.RoleUser),
		values: func(k api.Key) []any {
			return []any{string(k.ID), k.Account, string(k.Role), toMicros(k.CreatedAt), toMicros(k.RevokedAt)}
		},
	}}
}

// InsertKey implements store.Store.
func (t keyTable) InsertKey(ctx context.Context, k api.Key, hash string) error {
	switch {
	case hash == "":
		return api.Errorf(api.KindInvalid, "row of key %s: the hash is missing", k.ID)
	case k.Account == "":
		return api.Errorf(api.KindInvalid, "row of key %s: the account is missing", k.ID)
	}
	args, err := t.args(k)
	if err != nil {
		return err
	}
	_, err = t.db.write.ExecContext(ctx, `INSERT INTO api_key (id, hash, account, created_at, revoked_at, doc) VALUES (?1, ?7, ?2, ?4, ?5, ?6)`,
		append(args, hash)...)
	if err != nil {
		return insertError(ctx, err, "key", string(k.ID), "nothing")
	}
	return nil
}

// RevokeKey implements store.Store.
func (t keyTable) RevokeKey(ctx context.Context, id api.KeyID, at time.Time) (k api.Key, err error) {
	if at.IsZero() {
		return k, api.Errorf(api.KindInvalid, "key %s: the time of its revocation is missing", id)
	}
	err = t.db.inTx(ctx, "key "+string(id), func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE api_key SET revoked_at = ?2 WHERE id = ?1 AND revoked_at IS NULL`, string(id), toMicros(at))
		if err != nil {
			return wrapError(ctx, err, "revoke key %.64q", id)
		}
		k, err = get(ctx, tx, "key", string(id), t.scan, `SELECT `+t.columns+` FROM api_key WHERE id = ?`)
		return err
	})
	return k, err
}

// KeyByHash implements store.Store.
func (t keyTable) KeyByHash(ctx context.Context, hash string) (api.Key, error) {
	return get(ctx, t.db.read, "key", hash, t.scan, `SELECT `+t.columns+` FROM api_key WHERE hash = ?`)
}

// KeyPage implements store.Store.
func (t keyTable) KeyPage(ctx context.Context, f store.KeyFilter) ([]api.Key, store.Cursor, error) {
	return t.page(ctx, t.db.read, keyWhere(f), f.Limit, f.After)
}

// FindKey implements store.Store.
func (t keyTable) FindKey(ctx context.Context, prefix string) (api.KeyID, error) {
	return t.find(ctx, "", prefix)
}

func keyWhere(f store.KeyFilter) (w where) {
	w.equals("account", f.Account)
	if f.Working {
		w.conds = append(w.conds, "revoked_at IS NULL")
	}
	return w
}

func scanKey(r scanner) (k api.Key, err error) {
	err = scanRow(r, "key", &k, &k.ID, &k.Account, instant{&k.CreatedAt}, instant{&k.RevokedAt})
	return k, err
}
