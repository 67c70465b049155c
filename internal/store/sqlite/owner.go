package sqlite

import (
	"context"
	"database/sql"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

// InsertOwner stores a run of a daemon. It comes before anything that the run
// owns.
func (db ownerTable) InsertOwner(ctx context.Context, o store.Owner) error {
	if o.ID == "" || o.StartedAt.IsZero() {
		return api.Errorf(api.KindInvalid, "an owner needs an id and the time of its start, not %q and %s", o.ID, o.StartedAt)
	}
	_, err := db.write.ExecContext(ctx, `INSERT INTO owner (id, host, lock_path, pid, started_at, ended_at) VALUES (?, ?, ?, ?, ?, ?)`,
		string(o.ID), o.Host, o.LockPath, o.PID, micros(o.StartedAt), micros(o.EndedAt))
	if err != nil {
		return insertFailed(ctx, err, "owner", string(o.ID), "something")
	}
	db.ahead.owner(o.ID)
	return nil
}

// Owners lists those that have not ended, oldest first. Whether one is alive,
// the lock of its LockPath tells.
func (db ownerTable) Owners(ctx context.Context) ([]store.Owner, error) {
	return list(ctx, db.read, "owners", func(s scanner) (o store.Owner, err error) {
		var started, ended sql.NullInt64
		err = s.Scan(&o.ID, &o.Host, &o.LockPath, &o.PID, &started, &ended)
		o.StartedAt, o.EndedAt = instant(started), instant(ended)
		return o, err
	}, `SELECT id, host, lock_path, pid, started_at, ended_at FROM owner WHERE ended_at IS NULL ORDER BY started_at, rowid`)
}

// EndOwner notes that a run ended. Of several calls the first one counts.
func (db ownerTable) EndOwner(ctx context.Context, id api.OwnerID, at time.Time) error {
	if at.IsZero() {
		return api.Errorf(api.KindInvalid, "owner %s: the time of its end is missing", id)
	}
	r, err := db.write.ExecContext(ctx, `UPDATE owner SET ended_at = coalesce(ended_at, ?) WHERE id = ?`, micros(at), string(id))
	if err != nil {
		return failed(ctx, err, "store the end of owner %s", id)
	}
	if !changed(r) {
		return notFound("owner", string(id))
	}
	return nil
}
