package database

import (
	"context"
	"database/sql"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store/rowjson"
)

const (
	selectRepositorySQL = `
		SELECT doc, id, owner, state, name, key, created_at, ended_at FROM repository`
	insertRepositorySQL = `
		INSERT INTO repository (id, owner, host, lease_epoch, state, name, key, created_at, ended_at, doc)
		VALUES ($1, $2, coalesce((SELECT host FROM owner WHERE id = $2), ''), 1, $3, $4, $5, $6, $7, $8)`
	updateRepositorySQL = `
		UPDATE repository
		SET owner = $2, host = coalesce((SELECT host FROM owner WHERE id = $2), ''),
			lease_epoch = lease_epoch + CASE WHEN owner IS DISTINCT FROM $2 THEN 1 ELSE 0 END,
			state = $3, name = $4, key = $5, created_at = $6, ended_at = $7, doc = $8
		WHERE id = $1 AND (state = $3 OR state <> 'removed')`

	repositoryLives = "state IN ('fetching', 'ready', 'failed')"
)

func repositoryTable(db *DB) table[api.Repository, api.RepositoryID] {
	return table[api.Repository, api.RepositoryID]{
		db: db, what: "repository", plural: "repositories", name: "repository", letter: "r", start: "created_at",
		selectSQL: selectRepositorySQL, insertSQL: insertRepositorySQL, updateSQL: updateRepositorySQL,
		scan: func(r scanner) (v api.Repository, err error) {
			err = scanRow(r, "repository", &v, &v.ID, text(&v.Owner), &v.State, &v.Name, &v.Key, instant{&v.CreatedAt}, instant{&v.EndedAt})
			return v, err
		},
		mark:   func(r api.Repository) (time.Time, api.RepositoryID) { return r.CreatedAt, r.ID },
		states: names(api.RepositoryFetching, api.RepositoryReady, api.RepositoryFailed, api.RepositoryRemoved),
		values: func(r api.Repository) []any {
			return []any{string(r.ID), nullable(r.Owner), string(r.State), r.Name, r.Key, toMicros(r.CreatedAt), toMicros(r.EndedAt)}
		},
	}
}

// InsertRepository implements store.Store.
func (db *DB) InsertRepository(ctx context.Context, r api.Repository) error {
	return db.repositories.insert(ctx, r)
}

// ChangeRepository implements store.Store.
func (db *DB) ChangeRepository(ctx context.Context, id api.RepositoryID, change func(*api.Repository) error) (api.Repository, error) {
	return db.repositories.change(ctx, id, change)
}

// Repository implements store.Store.
func (db *DB) Repository(ctx context.Context, id api.RepositoryID) (api.Repository, error) {
	return db.repositories.get(ctx, db.read, id)
}

// ListRepositories implements store.Store.
func (db *DB) ListRepositories(ctx context.Context) ([]api.Repository, error) {
	return db.repositories.listLive(ctx, repositoryLives, false)
}

// RepositoryPage implements store.Store.
func (db *DB) RepositoryPage(ctx context.Context, account string, p api.PageRequest) ([]api.Repository, string, error) {
	w := where{conds: []string{repositoryLives}}
	w.equals("account", account)
	return db.repositories.page(ctx, w, p)
}

// NamedRepository implements store.Store.
func (db *DB) NamedRepository(ctx context.Context, account, name string) (api.Repository, error) {
	w := ofAccount(account)
	w.and(repositoryLives)
	w.and("name = ?", name)
	all, err := db.repositories.list(ctx, db.read, w, 1)
	if err == nil && len(all) == 0 {
		err = notFound("repository", name)
	}
	if err != nil {
		return api.Repository{}, err
	}
	return all[0], nil
}

// FindRepositoryOf implements store.Store.
func (db *DB) FindRepositoryOf(ctx context.Context, account, prefix string) (api.RepositoryID, error) {
	return db.repositories.find(ctx, account, prefix)
}

const (
	selectWorkspaceSQL = `
		SELECT doc, id, owner, state, task, created_at, ended_at FROM workspace`
	insertWorkspaceSQL = `
		INSERT INTO workspace (id, owner, host, lease_epoch, state, task, layers, created_at, ended_at, doc)
		VALUES ($1, $2, coalesce((SELECT host FROM owner WHERE id = $2), ''), 1, $3, $4, $5, $6, $7, $8)`
	updateWorkspaceSQL = `
		UPDATE workspace
		SET owner = $2, host = coalesce((SELECT host FROM owner WHERE id = $2), ''),
			lease_epoch = lease_epoch + CASE WHEN owner IS DISTINCT FROM $2 THEN 1 ELSE 0 END,
			state = $3, task = $4, layers = $5, created_at = $6, ended_at = $7, doc = $8
		WHERE id = $1 AND (state = $3 OR state <> 'removed') AND ` + mayWrite

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

// ChangeWorkspace implements store.Store.
func (db *DB) ChangeWorkspace(ctx context.Context, id api.WorkspaceID, change func(*api.Workspace) error) (api.Workspace, error) {
	return db.workspaces.change(ctx, id, change)
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
	w.and("keep IS NOT NULL")
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

const (
	selectSnapshotSQL = `
		SELECT doc, id, owner, state, name, sandbox, created_at, ended_at FROM snapshot`
	insertSnapshotSQL = `
		INSERT INTO snapshot (id, owner, host, lease_epoch, state, name, sandbox, created_at, ended_at, doc)
		VALUES ($1, $2, coalesce((SELECT host FROM owner WHERE id = $2), ''), 1, $3, $4, $5, $6, $7, $8)`
	updateSnapshotSQL = `
		UPDATE snapshot
		SET owner = $2, host = coalesce((SELECT host FROM owner WHERE id = $2), ''),
			lease_epoch = lease_epoch + CASE WHEN owner IS DISTINCT FROM $2 THEN 1 ELSE 0 END,
			state = $3, name = $4, sandbox = $5, created_at = $6, ended_at = $7, doc = $8
		WHERE id = $1 AND (state = $3 OR state NOT IN ('broken', 'removed')) AND ` + mayWrite

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

// ChangeSnapshot implements store.Store.
func (db *DB) ChangeSnapshot(ctx context.Context, id api.SnapshotID, change func(*api.Snapshot) error) (api.Snapshot, error) {
	return db.snapshots.change(ctx, id, change)
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

// ChangeTemplates implements store.Store.
func (db *DB) ChangeTemplates(ctx context.Context, account string, change func([]api.Snapshot) ([]api.Snapshot, error)) error {
	return db.inTx(ctx, "names of templates", func(tx *sql.Tx) error {
		if err := db.lock(ctx, tx, "templates", account); err != nil {
			return err
		}
		w := ofAccount(account)
		w.and(snapshotLives)
		w.and("name IS NOT NULL")
		q, args := w.query(selectSnapshotSQL, "created_at DESC, seq DESC", 0)
		rows, err := list(ctx, tx, "snapshots", db.snapshots.scan, db.dialect.adapt(q+" FOR UPDATE"), args...)
		if err == nil {
			rows, err = change(rows)
		}
		if err != nil {
			return err
		}
		for _, s := range rows {
			args, err := db.snapshots.args(s)
			if err == nil {
				err = db.snapshots.updateIn(ctx, tx, args)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// FindSnapshot implements store.Store.
func (db *DB) FindSnapshot(ctx context.Context, prefix string) (api.SnapshotID, error) {
	return db.snapshots.find(ctx, "", prefix)
}

// FindSnapshotOf implements store.Store.
func (db *DB) FindSnapshotOf(ctx context.Context, account, prefix string) (api.SnapshotID, error) {
	return db.snapshots.find(ctx, account, prefix)
}
