package database

import (
	"context"
	"database/sql"

	"hortus.dev/api"
)

const selectVolumeSQL = `SELECT id, account, name, created_at, node FROM volume`

func scanVolume(r scanner) (v api.Volume, err error) {
	err = r.Scan(&v.ID, &v.Account, &v.Name, instant{&v.CreatedAt}, &v.Node)
	return v, err
}

// InsertVolume implements store.Store.
func (db *DB) InsertVolume(ctx context.Context, v api.Volume, most int) error {
	if v.ID == "" || v.Name == "" || v.CreatedAt.IsZero() {
		return api.Errorf(api.KindInvalid, "a volume needs an id, a name and a time")
	}
	return db.growTx(ctx, "volume "+string(v.ID), func(tx *sql.Tx) error {
		if err := db.lock(ctx, tx, "volumes", v.Account); err != nil {
			return err
		}
		var others int
		if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM volume WHERE account = $1`, v.Account).Scan(&others); err != nil {
			return wrapError(ctx, err, "count volumes")
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO volume (id, account, name, created_at, node) VALUES ($1, $2, $3, $4, $5)`,
			string(v.ID), v.Account, v.Name, toMicros(v.CreatedAt), string(v.Node))
		if err != nil {
			return insertError(ctx, err, "volume", v.Name, "")
		}
		if others >= most {
			return api.Errorf(api.KindExhausted, "the account has %d volumes, which is the maximum", others).WithHint("destroy one")
		}
		return nil
	})
}

// Volume implements store.Store.
func (db *DB) Volume(ctx context.Context, id api.VolumeID) (api.Volume, error) {
	return get(ctx, db.read, "volume", string(id), scanVolume, selectVolumeSQL+` WHERE id = $1`)
}

// VolumesOf implements store.Store.
func (db *DB) VolumesOf(ctx context.Context, account string) ([]api.Volume, error) {
	return list(ctx, db.read, "volumes", scanVolume, selectVolumeSQL+` WHERE account = $1 ORDER BY seq DESC`, account)
}

// ListVolumes implements store.Store.
func (db *DB) ListVolumes(ctx context.Context) ([]api.Volume, error) {
	return list(ctx, db.read, "volumes", scanVolume, selectVolumeSQL+` ORDER BY seq DESC`)
}

// SetVolumeNode implements store.Store.
func (db *DB) SetVolumeNode(ctx context.Context, id api.VolumeID, node api.NodeID) error {
	_, err := db.execRelieved(ctx, func() (sql.Result, error) {
		return db.write.ExecContext(ctx, `UPDATE volume SET node = $2 WHERE id = $1`, string(id), string(node))
	})
	if err != nil {
		return wrapError(ctx, err, "store the node of volume %s", id)
	}
	return nil
}

// RemoveVolume implements store.Store.
func (db *DB) RemoveVolume(ctx context.Context, id api.VolumeID) error {
	return db.relieved(func() error {
		r, err := db.write.ExecContext(ctx, `DELETE FROM volume WHERE id = $1`, string(id))
		if err != nil {
			return wrapError(ctx, err, "remove volume %s", id)
		}
		if !changed(r) {
			return notFound("volume", string(id))
		}
		return nil
	})
}
