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
		db: db, what: "workspace", plural: "workspaces", name: "workspace", at: "created_at",
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
	var w where
	in(&w, "state", f.States)
	w.equals("owner", string(f.Owner))
	w.equals("task", string(f.Task))
	return t.list(ctx, t.db.read, w, f.Limit)
}

func scanWorkspace(r scanner) (w api.Workspace, err error) {
	err = scanRow(r, "workspace", &w, &w.ID, text(&w.Owner), &w.State, text(&w.Task), instant{&w.CreatedAt}, instant{&w.EndedAt})
	return w, err
}
