package database

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

// InsertOwner implements store.Store.
func (db *DB) InsertOwner(ctx context.Context, o store.Owner) error {
	if o.ID == "" || o.StartedAt.IsZero() {
		return api.Errorf(api.KindInvalid, "an owner needs an id and a start time, not %q and %s", o.ID, o.StartedAt)
	}
	err := db.insertOnce(ctx, func() error {
		return db.relieved(func() error {
			_, err := db.write.ExecContext(ctx, `
			INSERT INTO owner (id, host, lock_path, pid, started_at, ended_at, node)
			VALUES ($1, $2, $3, $4, $5, $6, nullif($7, ''))`,
				string(o.ID), o.Host, o.LockPath, o.PID, toMicros(o.StartedAt), toMicros(o.EndedAt), string(o.Node))
			return err
		})
	})
	if err != nil {
		return insertError(ctx, err, "owner", string(o.ID), "something")
	}
	db.ahead.addOwner(o.ID)
	return nil
}

// Owners implements store.Store.
func (db *DB) Owners(ctx context.Context) ([]store.Owner, error) {
	return list(ctx, db.read, "owners", func(s scanner) (o store.Owner, err error) {
		err = s.Scan(&o.ID, &o.Host, &o.LockPath, &o.PID, instant{&o.StartedAt}, instant{&o.BeatAt}, instant{&o.EndedAt}, optional[api.NodeID]{&o.Node})
		return o, err
	}, `
		SELECT id, host, lock_path, pid, started_at, beat_at, ended_at, node FROM owner
		WHERE ended_at IS NULL
		ORDER BY started_at, rowid`)
}

// BeatOwner implements store.Store.
func (db *DB) BeatOwner(ctx context.Context, id api.OwnerID, at time.Time) error {
	if at.IsZero() {
		return api.Errorf(api.KindInvalid, "owner %s: the time of the renewal is missing", id)
	}
	r, err := db.execRelieved(ctx, func() (sql.Result, error) {
		return db.lease.ExecContext(ctx, `UPDATE owner SET beat_at = $1 WHERE id = $2 AND ended_at IS NULL`, toMicros(at), string(id))
	})
	if err != nil {
		return wrapError(ctx, err, "renew the lease of owner %s", id)
	}
	if changed(r) {
		db.reserve.restore() // the disk may have space again
		return nil
	}
	var known bool
	err = db.read.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM owner WHERE id = $1)`, string(id)).Scan(&known)
	switch {
	case err != nil:
		return wrapError(ctx, err, "read owner %s", id)
	case !known:
		return notFound("owner", string(id))
	}
	return api.Errorf(api.KindConflict, "owner %s has ended: another daemon may have taken over its sandboxes and tasks", id)
}

// EndOwner implements store.Store.
func (db *DB) EndOwner(ctx context.Context, id api.OwnerID, at time.Time) error {
	if at.IsZero() {
		return api.Errorf(api.KindInvalid, "owner %s: the end time is missing", id)
	}
	r, err := db.execRelieved(ctx, func() (sql.Result, error) {
		return db.write.ExecContext(ctx, `UPDATE owner SET ended_at = coalesce(ended_at, $1) WHERE id = $2`, toMicros(at), string(id))
	})
	if err != nil {
		return wrapError(ctx, err, "store the end of owner %s", id)
	}
	if !changed(r) {
		return notFound("owner", string(id))
	}
	return nil
}

const (
	selectKeySQL = `
		SELECT doc, id, account, created_at, revoked_at FROM api_key`
	insertKeySQL = `
		INSERT INTO api_key (id, hash, account, created_at, revoked_at, doc)
		VALUES ($1, $6, $2, $3, $4, $5)`
)

func keyTable(db *DB) table[api.Key, api.KeyID] {
	return table[api.Key, api.KeyID]{
		db: db, what: "key", plural: "keys", name: "api_key", letter: "k", start: "created_at",
		selectSQL: selectKeySQL,
		scan: func(r scanner) (k api.Key, err error) {
			err = scanRow(r, "key", &k, &k.ID, &k.Account, instant{&k.CreatedAt}, instant{&k.RevokedAt})
			return k, err
		},
		mark:   func(k api.Key) (time.Time, api.KeyID) { return k.CreatedAt, k.ID },
		states: names(api.RoleAdmin, api.RoleUser),
		values: func(k api.Key) []any {
			return []any{string(k.ID), k.Account, string(k.Role), toMicros(k.CreatedAt), toMicros(k.RevokedAt)}
		},
	}
}

// InsertKey implements store.Store.
func (db *DB) InsertKey(ctx context.Context, k api.Key, hash string) error {
	switch {
	case hash == "":
		return api.Errorf(api.KindInvalid, "row of key %s: the hash is missing", k.ID)
	case k.Account == "" && k.Role != api.RoleAdmin:
		return api.Errorf(api.KindInvalid, "row of key %s: the account is missing", k.ID)
	}
	args, err := db.keys.args(k)
	if err != nil {
		return err
	}
	if err := db.mayGrow("key " + string(k.ID)); err != nil {
		return err
	}
	args = append(slices.Delete(args, 2, 3), hash) // the document has the role
	err = db.insertOnce(ctx, func() error { _, err := db.write.ExecContext(ctx, insertKeySQL, args...); return err })
	if err != nil {
		return insertError(ctx, err, "key", string(k.ID), "nothing")
	}
	return nil
}

// RevokeKey implements store.Store.
func (db *DB) RevokeKey(ctx context.Context, id api.KeyID, at time.Time) (k api.Key, err error) {
	if at.IsZero() {
		return k, api.Errorf(api.KindInvalid, "key %s: the time of its revocation is missing", id)
	}
	err = db.sameTx(ctx, "key "+string(id), func(tx *sql.Tx, _ bool) error {
		_, err := tx.ExecContext(ctx, `UPDATE api_key SET revoked_at = $2 WHERE id = $1 AND revoked_at IS NULL`, string(id), toMicros(at))
		if err != nil {
			return wrapError(ctx, err, "revoke key %.64q", id)
		}
		k, err = db.keys.get(ctx, tx, id)
		return err
	})
	return k, err
}

// KeyByHash implements store.Store.
func (db *DB) KeyByHash(ctx context.Context, hash string) (api.Key, error) {
	return get(ctx, db.read, "key", hash, db.keys.scan, selectKeySQL+` WHERE hash = $1`)
}

// Key implements store.Store.
func (db *DB) Key(ctx context.Context, id api.KeyID) (api.Key, error) {
	return db.keys.get(ctx, db.read, id)
}

// KeyPage implements store.Store.
func (db *DB) KeyPage(ctx context.Context, all bool, p api.PageRequest) ([]api.Key, string, error) {
	var w where
	if !all {
		w.and("revoked_at IS NULL")
	}
	return db.keys.page(ctx, w, p)
}

// FindKey implements store.Store.
func (db *DB) FindKey(ctx context.Context, prefix string) (api.KeyID, error) {
	return db.keys.find(ctx, "", prefix)
}

// BeginOnce implements store.Store.
func (db *DB) BeginOnce(ctx context.Context, o store.Once, most int) (have store.Once, begun bool, err error) {
	if o.Key == "" || len(o.Request) == 0 || o.CreatedAt.IsZero() || !o.ExpiresAt.After(o.CreatedAt) || most < 1 {
		return have, false, api.Errorf(api.KindInvalid, "a row for an idempotency key needs the key, its request and times")
	}
	err = db.sameTx(ctx, "key", func(tx *sql.Tx, doubt bool) error {
		begun = false // it may run again
		if err := db.lock(ctx, tx, "idempotency keys", o.Account); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM once WHERE expires_at <= $1`, toMicros(o.CreatedAt)); err != nil {
			return wrapError(ctx, err, "remove keys that have expired")
		}
		have, err = scanOnce(tx.QueryRowContext(ctx, `
			SELECT account, key, request, done, answer, created_at, expires_at
			FROM once WHERE account = $1 AND key = $2`, o.Account, o.Key))
		if err == nil {
			begun = doubt && !have.Done && have.CreatedAt.Equal(o.CreatedAt.Truncate(time.Microsecond)) && bytes.Equal(have.Request, o.Request)
			return nil
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return wrapError(ctx, err, "read key")
		}
		_, err = tx.ExecContext(ctx, `
			DELETE FROM once
			WHERE account = $1 AND done = 1
				AND seq NOT IN (SELECT seq FROM once WHERE account = $1 ORDER BY seq DESC LIMIT $2)`, o.Account, most-1)
		if err != nil {
			return wrapError(ctx, err, "remove old keys")
		}
		_, err = tx.ExecContext(ctx, `
			INSERT INTO once (account, key, request, done, created_at, expires_at)
			VALUES ($1, $2, $3, 0, $4, $5)`, o.Account, o.Key, o.Request, toMicros(o.CreatedAt), toMicros(o.ExpiresAt))
		if err != nil {
			return wrapError(ctx, err, "store key")
		}
		begun = true
		return nil
	})
	return have, begun && err == nil, err
}

// EndOnce implements store.Store.
func (db *DB) EndOnce(ctx context.Context, o store.Once) error {
	return db.sameTx(ctx, "key", func(tx *sql.Tx, doubt bool) error {
		r, err := tx.ExecContext(ctx, `UPDATE once SET done = 1, answer = $1 WHERE account = $2 AND key = $3 AND (done = 0 OR $4 = 1 AND created_at = $5)`,
			o.Answer, o.Account, o.Key, doubt, toMicros(o.CreatedAt))
		if err != nil {
			return wrapError(ctx, err, "store the answer under a key")
		}
		if !changed(r) {
			return notFound("key", o.Key)
		}
		return nil
	})
}

// ForgetOnce implements store.Store.
func (db *DB) ForgetOnce(ctx context.Context, account, key string) error {
	_, err := db.execRelieved(ctx, func() (sql.Result, error) {
		return db.write.ExecContext(ctx, `DELETE FROM once WHERE account = $1 AND key = $2 AND done = 0`, account, key)
	})
	if err != nil {
		return wrapError(ctx, err, "remove a key")
	}
	return nil
}

func scanOnce(r scanner) (o store.Once, err error) {
	err = r.Scan(&o.Account, &o.Key, &o.Request, &o.Done, &o.Answer, instant{&o.CreatedAt}, instant{&o.ExpiresAt})
	return o, err
}
