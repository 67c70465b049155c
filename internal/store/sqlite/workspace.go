package sqlite

import (
	"context"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store/rowjson"
)

const (
	selectWorkspaceSQL = `
		SELECT doc, id, owner, state, task, created_at, ended_at FROM workspace`
	insertWorkspaceSQL = `
		INSERT INTO workspace (id, owner, host, lease_epoch, state, task, layers, created_at, ended_at, doc)
		VALUES (?1, ?2, coalesce((SELECT host FROM owner WHERE id = ?2), ''), 1, ?3, ?4, ?5, ?6, ?7, ?8)`
	updateWorkspaceSQL = `
		UPDATE workspace
		SET owner = ?2, host = coalesce((SELECT host FROM owner WHERE id = ?2), ''),
			lease_epoch = lease_epoch + (owner IS NOT ?2),
			state = ?3, task = ?4, layers = ?5, created_at = ?6, ended_at = ?7, doc = ?8
		WHERE id = ?1 AND (state = ?3 OR state <> 'removed')`

	workspaceLives = "state IN ('idle', 'active')"
)

func workspaceTable(db *DB) table[api.Workspace, api.WorkspaceID] {
	return table[api.Workspace, api.WorkspaceID]{
		db: db, what: "workspace", plural: "workspaces", name: "workspace", letter: "w", start: "created_at",
		selectSQL: selectWorkspaceSQL, insertSQL: insertWorkspaceSQL, updateSQL: updateWorkspaceSQL,
		scan: func(r scanner) (w api.Workspace, err error) {
			err = scanRow(r, "workspace", &w, &w.ID, text(&w.Owner), &w.State, text(&w.Task), instant{&w.CreatedAt}, instant{&w.EndedAt})
			return w, err
		},
		mark:   func(w api.Workspace) (time.Time, api.WorkspaceID) { return w.CreatedAt, w.ID },
		states: names(api.WorkspaceIdle, api.WorkspaceActive, api.WorkspaceRemoved),
		values: func(w api.Workspace) []any {
			layers, _ := rowjson.Marshal(w.Layers) // strings cannot fail
			return []any{string(w.ID), nullable(w.Owner), string(w.State), nullable(w.Task), string(layers),
				toMicros(w.CreatedAt), toMicros(w.EndedAt)}
		},
	}
}

// InsertWorkspace implements store.Store.
func (db *DB) InsertWorkspace(ctx context.Context, w api.Workspace) error {
	return db.workspaces.insert(ctx, w)
}

// UpdateWorkspace implements store.Store.
func (db *DB) UpdateWorkspace(ctx context.Context, w api.Workspace) error {
	return db.workspaces.update(ctx, w)
}

// Workspace implements store.Store.
func (db *DB) Workspace(ctx context.Context, id api.WorkspaceID) (api.Workspace, error) {
	return db.workspaces.get(ctx, db.read, id)
}

// ListWorkspaces implements store.Store.
func (db *DB) ListWorkspaces(ctx context.Context) ([]api.Workspace, error) {
	return db.workspaces.listLive(ctx, workspaceLives, false)
}

// NamedWorkspaces implements store.Store.
func (db *DB) NamedWorkspaces(ctx context.Context, account, name string) ([]api.Workspace, error) {
	w := ofAccount(account)
	w.and(workspaceLives)
	w.and("name = ?", name)
	return db.workspaces.list(ctx, db.read, w, 0)
}

// KeptWorkspaces implements store.Store.
func (db *DB) KeptWorkspaces(ctx context.Context, account string, most int) (int, error) {
	w := ofAccount(account)
	w.and(workspaceLives)
	w.and("json_extract(doc, '$.keep')")
	rows, err := db.workspaces.list(ctx, db.read, w, most)
	return len(rows), err
}

// WorkspacePage implements store.Store.
func (db *DB) WorkspacePage(ctx context.Context, account string, p api.PageRequest) ([]api.Workspace, string, error) {
	w := where{conds: []string{workspaceLives}}
	w.equals("account", account)
	return db.workspaces.page(ctx, w, p)
}

// FindWorkspaceOf implements store.Store.
func (db *DB) FindWorkspaceOf(ctx context.Context, account, prefix string) (api.WorkspaceID, error) {
	return db.workspaces.find(ctx, account, prefix)
}
