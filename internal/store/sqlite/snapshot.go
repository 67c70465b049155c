package sqlite

import (
	"context"
	"time"

	"hortus.dev/api"
)

const (
	selectSnapshotSQL = `
		SELECT doc, id, owner, state, name, sandbox, created_at, ended_at FROM snapshot`
	insertSnapshotSQL = `
		INSERT INTO snapshot (id, owner, host, lease_epoch, state, name, sandbox, created_at, ended_at, doc)
		VALUES (?1, ?2, coalesce((SELECT host FROM owner WHERE id = ?2), ''), 1, ?3, ?4, ?5, ?6, ?7, ?8)`
	updateSnapshotSQL = `
		UPDATE snapshot
		SET owner = ?2, host = coalesce((SELECT host FROM owner WHERE id = ?2), ''),
			lease_epoch = lease_epoch + (owner IS NOT ?2),
			state = ?3, name = ?4, sandbox = ?5, created_at = ?6, ended_at = ?7, doc = ?8
		WHERE id = ?1 AND (state = ?3 OR state NOT IN ('broken', 'removed'))`

	snapshotLives = "state IN ('saving', 'ready')"
)

func snapshotTable(db *DB) table[api.Snapshot, api.SnapshotID] {
	return table[api.Snapshot, api.SnapshotID]{
		db: db, what: "snapshot", plural: "snapshots", name: "snapshot", letter: "s", start: "created_at",
		selectSQL: selectSnapshotSQL, insertSQL: insertSnapshotSQL, updateSQL: updateSnapshotSQL,
		scan: func(r scanner) (s api.Snapshot, err error) {
			err = scanRow(r, "snapshot", &s, &s.ID, text(&s.Owner), &s.State, text(&s.Name), &s.Sandbox,
				instant{&s.CreatedAt}, instant{&s.EndedAt})
			return s, err
		},
		mark:   func(s api.Snapshot) (time.Time, api.SnapshotID) { return s.CreatedAt, s.ID },
		states: names(api.SnapshotSaving, api.SnapshotReady, api.SnapshotBroken, api.SnapshotRemoved),
		values: func(s api.Snapshot) []any {
			return []any{string(s.ID), nullable(s.Owner), string(s.State), nullable(s.Name), string(s.Sandbox),
				toMicros(s.CreatedAt), toMicros(s.EndedAt)}
		},
	}
}

// InsertSnapshot implements store.Store.
func (db *DB) InsertSnapshot(ctx context.Context, s api.Snapshot) error {
	return db.snapshots.insert(ctx, s)
}

// UpdateSnapshot implements store.Store.
func (db *DB) UpdateSnapshot(ctx context.Context, s api.Snapshot) error {
	return db.snapshots.update(ctx, s)
}

// Snapshot implements store.Store.
func (db *DB) Snapshot(ctx context.Context, id api.SnapshotID) (api.Snapshot, error) {
	return db.snapshots.get(ctx, db.read, id)
}

// ListSnapshots implements store.Store.
func (db *DB) ListSnapshots(ctx context.Context, all bool) ([]api.Snapshot, error) {
	return db.snapshots.listLive(ctx, snapshotLives, all)
}

// SnapshotPage implements store.Store.
func (db *DB) SnapshotPage(ctx context.Context, account string, all bool, p api.PageRequest) ([]api.Snapshot, string, error) {
	var w where
	w.equals("account", account)
	if !all {
		w.and(snapshotLives)
	}
	return db.snapshots.page(ctx, w, p)
}

// TemplatePage implements store.Store.
func (db *DB) TemplatePage(ctx context.Context, p api.PageRequest) ([]api.Snapshot, string, error) {
	return db.snapshots.page(ctx, where{conds: []string{"state = 'ready' AND account IS NULL AND name IS NOT NULL"}}, p)
}

// FindSnapshot implements store.Store.
func (db *DB) FindSnapshot(ctx context.Context, prefix string) (api.SnapshotID, error) {
	return db.snapshots.find(ctx, "", prefix)
}

// FindSnapshotOf implements store.Store.
func (db *DB) FindSnapshotOf(ctx context.Context, account, prefix string) (api.SnapshotID, error) {
	return db.snapshots.find(ctx, account, prefix)
}
