package sqlite

import (
	"context"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

type snapshotTable struct {
	table[api.Snapshot, api.SnapshotID]
}

func newSnapshotTable(db *database) snapshotTable {
	return snapshotTable{table[api.Snapshot, api.SnapshotID]{
		db: db, what: "snapshot", plural: "snapshots", name: "snapshot", letter: "s", at: "created_at",
		columns: `doc, id, owner, state, name, sandbox, created_at, ended_at`, scan: scanSnapshot,
		mark:   func(s api.Snapshot) (time.Time, api.SnapshotID) { return s.CreatedAt, s.ID },
		states: names(api.SnapshotSaving, api.SnapshotReady, api.SnapshotBroken, api.SnapshotRemoved),
		final:  names(api.SnapshotBroken, api.SnapshotRemoved),
		stored: []string{"state", "name", "sandbox", "created_at", "ended_at", "doc"},
		values: func(s api.Snapshot) []any {
			return []any{string(s.ID), nullable(s.Owner), string(s.State), nullable(s.Name), string(s.Sandbox),
				toMicros(s.CreatedAt), toMicros(s.EndedAt)}
		},
	}}
}

// InsertSnapshot implements store.Store.
func (t snapshotTable) InsertSnapshot(ctx context.Context, s api.Snapshot) error {
	return t.insert(ctx, s)
}

// UpdateSnapshot implements store.Store.
func (t snapshotTable) UpdateSnapshot(ctx context.Context, s api.Snapshot) error {
	return t.update(ctx, s)
}

// Snapshot implements store.Store.
func (t snapshotTable) Snapshot(ctx context.Context, id api.SnapshotID) (api.Snapshot, error) {
	return t.get(ctx, t.db.read, id)
}

// Snapshots implements store.Store.
func (t snapshotTable) Snapshots(ctx context.Context, f store.SnapshotFilter) ([]api.Snapshot, error) {
	return t.list(ctx, t.db.read, snapshotWhere(f), f.Limit)
}

// SnapshotPage implements store.Store.
func (t snapshotTable) SnapshotPage(ctx context.Context, f store.SnapshotFilter) ([]api.Snapshot, store.Cursor, error) {
	return t.page(ctx, t.db.read, snapshotWhere(f), f.Limit, f.After)
}

// FindSnapshot implements store.Store.
func (t snapshotTable) FindSnapshot(ctx context.Context, prefix string) (api.SnapshotID, error) {
	return t.find(ctx, "", prefix)
}

// FindSnapshotOf implements store.Store.
func (t snapshotTable) FindSnapshotOf(ctx context.Context, account, prefix string) (api.SnapshotID, error) {
	return t.find(ctx, account, prefix)
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
	err = scanRow(r, "snapshot", &s, &s.ID, text(&s.Owner), &s.State, text(&s.Name), &s.Sandbox,
		instant{&s.CreatedAt}, instant{&s.EndedAt})
	return s, err
}
