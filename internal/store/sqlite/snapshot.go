package sqlite

import (
	"context"
	"database/sql"

	"hortus.dev/api"
	"hortus.dev/internal/store"
	"hortus.dev/internal/store/rowjson"
)

const snapshotColumns = `id, owner, state, name, sandbox, created_at, ended_at, doc`

func snapshotArgs(s api.Snapshot) ([]any, error) {
	err := checkRow("snapshot", string(s.ID), !s.CreatedAt.IsZero(), string(s.State),
		string(api.SnapshotSaving), string(api.SnapshotReady), string(api.SnapshotBroken), string(api.SnapshotRemoved))
	if err != nil {
		return nil, err
	}
	doc, err := rowjson.Marshal(s)
	if err != nil {
		return nil, api.Errorf(api.KindInvalid, "snapshot %s: %w", s.ID, err)
	}
	return []any{string(s.ID), nullable(s.Owner), string(s.State), nullable(s.Name), string(s.Sandbox),
		toMicros(s.CreatedAt), toMicros(s.EndedAt), string(doc)}, nil
}

// InsertSnapshot implements store.Store.
func (db snapshotTable) InsertSnapshot(ctx context.Context, s api.Snapshot) error {
	args, err := snapshotArgs(s)
	if err != nil {
		return err
	}
	_, err = db.write.ExecContext(ctx, `INSERT INTO snapshot
		(id, owner, host, lease_epoch, state, name, sandbox, created_at, ended_at, doc)
		VALUES (?1, ?2, coalesce((SELECT host FROM owner WHERE id = ?2), ''), 1, ?3, ?4, ?5, ?6, ?7, ?8)`, args...)
	if err != nil {
		return insertError(ctx, err, "snapshot", string(s.ID), "owner "+string(s.Owner))
	}
	return nil
}

// UpdateSnapshot implements store.Store.
func (db snapshotTable) UpdateSnapshot(ctx context.Context, s api.Snapshot) error {
	args, err := snapshotArgs(s)
	if err != nil {
		return err
	}
	return db.inTx(ctx, "snapshot "+string(s.ID), func(tx *sql.Tx) error {
		r, err := tx.ExecContext(ctx, `UPDATE snapshot SET
			owner = ?2, host = coalesce((SELECT host FROM owner WHERE id = ?2), ''),
			lease_epoch = lease_epoch + (owner IS NOT ?2),
			state = ?3, name = ?4, sandbox = ?5, created_at = ?6, ended_at = ?7, doc = ?8
			WHERE id = ?1 AND (state = ?3 OR state NOT IN ('broken', 'removed'))`, args...)
		if err != nil {
			return updateError(ctx, err, "snapshot", string(s.ID), "owner "+string(s.Owner))
		}
		if !changed(r) {
			return updateConflict(ctx, tx, "snapshot", "snapshot", string(s.ID), string(s.State))
		}
		return nil
	})
}

// Snapshot implements store.Store.
func (db snapshotTable) Snapshot(ctx context.Context, id api.SnapshotID) (api.Snapshot, error) {
	return get(ctx, db.read, "snapshot", string(id), scanSnapshot, `SELECT `+snapshotColumns+` FROM snapshot WHERE id = ?`)
}

// Snapshots implements store.Store.
func (db snapshotTable) Snapshots(ctx context.Context, f store.SnapshotFilter) ([]api.Snapshot, error) {
	if err := checkLimit("snapshots", f.Limit); err != nil {
		return nil, err
	}
	w := snapshotWhere(f)
	q, args := w.selectSQL(snapshotColumns, "snapshot", "created_at DESC, seq DESC", f.Limit)
	return list(ctx, db.read, "snapshots", scanSnapshot, q, args...)
}

func snapshotWhere(f store.SnapshotFilter) (w where) {
	in(&w, "state", f.States)
	w.equals("account", f.Account)
	w.equals("owner", string(f.Owner))
	w.equals("sandbox", string(f.Sandbox))
	w.equals("name", f.Name)
	if f.Templates {
		w.conds = append(w.conds, "account IS NULL AND name IS NOT NULL")
	}
	return w
}

func scanSnapshot(r scanner) (s api.Snapshot, err error) {
	var id, state, sandbox, doc string
	var owner, name sql.NullString
	var created, ended sql.NullInt64
	if err := r.Scan(&id, &owner, &state, &name, &sandbox, &created, &ended, &doc); err != nil {
		return s, err
	}
	if err := rowjson.Unmarshal([]byte(doc), &s); err != nil {
		return s, api.Errorf(api.KindInternal, "the row of snapshot %s is damaged: %w", id, err)
	}
	s.ID, s.State, s.Name, s.Sandbox = api.SnapshotID(id), api.SnapshotState(state), name.String, api.SandboxID(sandbox)
	s.Owner = api.OwnerID(owner.String)
	s.CreatedAt, s.EndedAt = fromMicros(created), fromMicros(ended)
	return s, nil
}
