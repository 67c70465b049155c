package sqlite

import (
	"context"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

// InsertOwner implements store.Store.
func (db *DB) InsertOwner(ctx context.Context, o store.Owner) error {
	if o.ID == "" || o.StartedAt.IsZero() {
		return api.Errorf(api.KindInvalid, "an owner needs an id and a start time, not %q and %s", o.ID, o.StartedAt)
	}
	_, err := db.write.ExecContext(ctx, `
		INSERT INTO owner (id, host, lock_path, pid, started_at, ended_at)
		VALUES (?, ?, ?, ?, ?, ?)`,
		string(o.ID), o.Host, o.LockPath, o.PID, toMicros(o.StartedAt), toMicros(o.EndedAt))
	if err != nil {
		return insertError(ctx, err, "owner", string(o.ID), "something")
	}
	db.ahead.addOwner(o.ID)
	return nil
}

// Owners implements store.Store.
func (db *DB) Owners(ctx context.Context) ([]store.Owner, error) {
	return list(ctx, db.read, "owners", func(s scanner) (o store.Owner, err error) {
		err = s.Scan(&o.ID, &o.Host, &o.LockPath, &o.PID, instant{&o.StartedAt}, instant{&o.BeatAt}, instant{&o.EndedAt})
		return o, err
	}, `
		SELECT id, host, lock_path, pid, started_at, beat_at, ended_at FROM owner
		WHERE ended_at IS NULL
		ORDER BY started_at, rowid`)
}

// BeatOwner implements store.Store.
func (db *DB) BeatOwner(ctx context.Context, id api.OwnerID, at time.Time) error {
	if at.IsZero() {
		return api.Errorf(api.KindInvalid, "owner %s: the time of the renewal is missing", id)
	}
	r, err := db.write.ExecContext(ctx, `UPDATE owner SET beat_at = ? WHERE id = ? AND ended_at IS NULL`, toMicros(at), string(id))
	if err != nil {
		return wrapError(ctx, err, "renew the lease of owner %s", id)
	}
	if changed(r) {
		return nil
	}
	var known bool
	err = db.read.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM owner WHERE id = ?)`, string(id)).Scan(&known)
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
	r, err := db.write.ExecContext(ctx, `UPDATE owner SET ended_at = coalesce(ended_at, ?) WHERE id = ?`, toMicros(at), string(id))
	if err != nil {
		return wrapError(ctx, err, "store the end of owner %s", id)
	}
	if !changed(r) {
		return notFound("owner", string(id))
	}
	return nil
}
