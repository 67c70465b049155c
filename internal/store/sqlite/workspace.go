package sqlite

import (
	"context"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store"
	"hortus.dev/internal/store/rowjson"
)

type workspaceTable struct {
	table[api.Workspace, api.WorkspaceID]
}

func newWorkspaceTable(db *database) workspaceTable {
	return workspaceTable{table[api.Workspace, api.WorkspaceID]{
		db: db, what: "workspace", plural: "workspaces", name: "workspace", letter: "w", at: "created_at",
		columns: `doc, id, owner, state, task, created_at, ended_at`, scan: scanWorkspace,
		mark:   func(w api.Workspace) (time.Time, api.WorkspaceID) { return w.CreatedAt, w.ID },
		states: names(api.WorkspaceIdle, api.WorkspaceActive, api.WorkspaceRemoved),
		final:  names(api.WorkspaceRemoved),
		stored: []string{"state", "task", "layers", "created_at", "ended_at", "doc"},
		values: func(w api.Workspace) []any {
			layers, _ := rowjson.Marshal(w.Layers) // strings cannot fail
			return []any{string(w.ID), nullable(w.Owner), string(w.State), nullable(w.Task), string(layers),
				toMicros(w.CreatedAt), toMicros(w.EndedAt)}
		},
	}}
}

// InsertWorkspace implements store.Store.
func (t workspaceTable) InsertWorkspace(ctx context.Context, w api.Workspace) error {
	return t.insert(ctx, w)
}

// UpdateWorkspace implements store.Store.
func (t workspaceTable) UpdateWorkspace(ctx context.Context, w api.Workspace) error {
	return t.update(ctx, w)
}

// Workspace implements store.Store.
func (t workspaceTable) Workspace(ctx context.Context, id api.WorkspaceID) (api.Workspace, error) {
	return t.get(ctx, t.db.read, id)
}

// Workspaces implements store.Store.
func (t workspaceTable) Workspaces(ctx context.Context, f store.WorkspaceFilter) ([]api.Workspace, error) {
	return t.list(ctx, t.db.read, workspaceWhere(f), f.Limit)
}

// WorkspacePage implements store.Store.
func (t workspaceTable) WorkspacePage(ctx context.Context, f store.WorkspaceFilter) ([]api.Workspace, store.Cursor, error) {
	return t.page(ctx, t.db.read, workspaceWhere(f), f.Limit, f.After)
}

// FindWorkspaceOf implements store.Store.
func (t workspaceTable) FindWorkspaceOf(ctx context.Context, account, prefix string) (api.WorkspaceID, error) {
	return t.find(ctx, account, prefix)
}

func workspaceWhere(f store.WorkspaceFilter) (w where) {
	in(&w, "state", f.States)
	w.equals("account", f.Account)
	w.equals("owner", string(f.Owner))
	w.equals("task", string(f.Task))
	w.equals("name", f.Name)
	if f.Keep {
		w.conds = append(w.conds, "json_extract(doc, '$.keep')")
	}
	if f.NoAccount {
		w.conds = append(w.conds, "account IS NULL")
	}
	return w
}

func scanWorkspace(r scanner) (w api.Workspace, err error) {
	err = scanRow(r, "workspace", &w, &w.ID, text(&w.Owner), &w.State, text(&w.Task), instant{&w.CreatedAt}, instant{&w.EndedAt})
	return w, err
}
