package sqlite

import (
	"context"
	"database/sql"

	"hortus.dev/api"
	"hortus.dev/internal/store"
	"hortus.dev/internal/store/rowjson"
)

const workspaceColumns = `id, owner, state, task, created_at, ended_at, doc`

func workspaceArgs(w api.Workspace) ([]any, error) {
	err := checkRow("workspace", string(w.ID), !w.CreatedAt.IsZero(), string(w.State),
		string(api.WorkspaceIdle), string(api.WorkspaceActive), string(api.WorkspaceRemoved))
	if err != nil {
		return nil, err
	}
	doc, err := rowjson.Marshal(w)
	if err != nil {
		return nil, api.Errorf(api.KindInvalid, "workspace %s: %w", w.ID, err)
	}
	layers, err := rowjson.Marshal(w.Layers)
	if err != nil {
		return nil, api.Errorf(api.KindInvalid, "workspace %s: %w", w.ID, err)
	}
	return []any{string(w.ID), nullable(w.Owner), string(w.State), nullable(w.Task), string(layers),
		toMicros(w.CreatedAt), toMicros(w.EndedAt), string(doc)}, nil
}

// InsertWorkspace implements store.Store.
func (db workspaceTable) InsertWorkspace(ctx context.Context, w api.Workspace) error {
	args, err := workspaceArgs(w)
	if err != nil {
		return err
	}
	_, err = db.write.ExecContext(ctx, `INSERT INTO workspace
		(id, owner, host, lease_epoch, state, task, layers, created_at, ended_at, doc)
		VALUES (?1, ?2, coalesce((SELECT host FROM owner WHERE id = ?2), ''), 1, ?3, ?4, ?5, ?6, ?7, ?8)`, args...)
	if err != nil {
		return insertError(ctx, err, "workspace", string(w.ID), "owner "+string(w.Owner))
	}
	return nil
}

// UpdateWorkspace implements store.Store.
func (db workspaceTable) UpdateWorkspace(ctx context.Context, w api.Workspace) error {
	args, err := workspaceArgs(w)
	if err != nil {
		return err
	}
	return db.inTx(ctx, "workspace "+string(w.ID), func(tx *sql.Tx) error {
		r, err := tx.ExecContext(ctx, `UPDATE workspace SET
			owner = ?2, host = coalesce((SELECT host FROM owner WHERE id = ?2), ''),
			lease_epoch = lease_epoch + (owner IS NOT ?2),
			state = ?3, task = ?4, layers = ?5, created_at = ?6, ended_at = ?7, doc = ?8
			WHERE id = ?1 AND (state = ?3 OR state <> 'removed')`, args...)
		if err != nil {
			return updateError(ctx, err, "workspace", string(w.ID), "owner "+string(w.Owner))
		}
		if !changed(r) {
			return updateConflict(ctx, tx, "workspace", "workspace", string(w.ID), string(w.State))
		}
		return nil
	})
}

// Workspace implements store.Store.
func (db workspaceTable) Workspace(ctx context.Context, id api.WorkspaceID) (api.Workspace, error) {
	return get(ctx, db.read, "workspace", string(id), scanWorkspace, `SELECT `+workspaceColumns+` FROM workspace WHERE id = ?`)
}

// Workspaces implements store.Store.
func (db workspaceTable) Workspaces(ctx context.Context, f store.WorkspaceFilter) ([]api.Workspace, error) {
	if err := checkLimit("workspaces", f.Limit); err != nil {
		return nil, err
	}
	var w where
	in(&w, "state", f.States)
	w.equals("owner", string(f.Owner))
	w.equals("task", string(f.Task))
	q, args := w.selectSQL(workspaceColumns, "workspace", "created_at DESC, seq DESC", f.Limit)
	return list(ctx, db.read, "workspaces", scanWorkspace, q, args...)
}

func scanWorkspace(r scanner) (w api.Workspace, err error) {
	var id, state, doc string
	var owner, task sql.NullString
	var created, ended sql.NullInt64
	if err := r.Scan(&id, &owner, &state, &task, &created, &ended, &doc); err != nil {
		return w, err
	}
	if err := rowjson.Unmarshal([]byte(doc), &w); err != nil {
		return w, api.Errorf(api.KindInternal, "the row of workspace %s is damaged: %w", id, err)
	}
	w.ID, w.State = api.WorkspaceID(id), api.WorkspaceState(state)
	w.Owner, w.Task = api.OwnerID(owner.String), api.TaskID(task.String)
	w.CreatedAt, w.EndedAt = fromMicros(created), fromMicros(ended)
	return w, nil
}
