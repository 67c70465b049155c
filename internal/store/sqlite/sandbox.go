package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store"
	"hortus.dev/internal/store/sqlite/sealed"
)

const sandboxColumns = `doc, id, owner, state, task, created_at, expires_at, ended_at`

// updateSandboxSameSQL is the common update, which keeps the owner.
const updateSandboxSameSQL = `UPDATE sandbox SET
	state = ?3, task = ?4, created_at = ?5, expires_at = ?6, ended_at = ?7, doc = ?8
	WHERE id = ?1 AND owner IS ?2 AND (state = ?3 OR state NOT IN ('ended', 'lost'))`

type sandboxTable struct {
	table[api.Sandbox, api.SandboxID]
}

func newSandboxTable(db *database) sandboxTable {
	return sandboxTable{table[api.Sandbox, api.SandboxID]{
		db: db, what: "sandbox", plural: "sandboxes", name: "sandbox", letter: "i", at: "created_at",
		columns: sandboxColumns, scan: scanSandbox(db.sealer),
		mark:     func(s api.Sandbox) (time.Time, api.SandboxID) { return s.CreatedAt, s.ID },
		states:   names(api.SandboxStarting, api.SandboxRunning, api.SandboxPaused, api.SandboxEnded, api.SandboxLost),
		final:    names(api.SandboxEnded, api.SandboxLost),
		stored:   []string{"state", "task", "created_at", "expires_at", "ended_at", "doc"},
		child:    "exec",
		document: func(s api.Sandbox) (any, error) { return db.sealer.Sandbox(s) },
		values: func(s api.Sandbox) []any {
			return []any{string(s.ID), nullable(s.Owner), string(s.State), nullable(s.Task),
				toMicros(s.CreatedAt), toMicros(s.ExpiresAt), toMicros(s.EndedAt)}
		},
	}}
}

// InsertSandbox implements store.Store.
func (t sandboxTable) InsertSandbox(ctx context.Context, s api.Sandbox) error {
	args, err := t.args(s)
	if err != nil {
		return err
	}
	if done, err := t.ahead.put(ctx, record{insertSandboxOp, args}); done || err != nil {
		return err
	}
	_, err = t.db.insertSandbox.ExecContext(ctx, args...)
	return t.insertError(ctx, err, args)
}

// UpdateSandbox implements store.Store.
func (t sandboxTable) UpdateSandbox(ctx context.Context, s api.Sandbox) error {
	args, err := t.args(s)
	if err != nil {
		return err
	}
	if done, err := t.ahead.put(ctx, record{updateSandboxOp, args}); done || err != nil {
		return err
	}
	if r, err := t.db.updateSandboxSame.ExecContext(ctx, args...); err != nil {
		return wrapError(ctx, err, "store sandbox %s", s.ID)
	} else if changed(r) {
		return nil
	}
	// The owner changes, or the update is refused.
	return t.updateArgs(ctx, args)
}

// Sandbox implements store.Store.
func (t sandboxTable) Sandbox(ctx context.Context, id api.SandboxID) (api.Sandbox, error) {
	return t.get(ctx, t.db.read, id)
}

// Sandboxes implements store.Store.
func (t sandboxTable) Sandboxes(ctx context.Context, f store.SandboxFilter) ([]api.Sandbox, error) {
	return t.list(ctx, t.db.read, sandboxWhere(f), f.Limit)
}

// SandboxPage implements store.Store.
func (t sandboxTable) SandboxPage(ctx context.Context, f store.SandboxFilter) ([]api.Sandbox, store.Cursor, error) {
	return t.page(ctx, t.db.read, sandboxWhere(f), f.Limit, f.After)
}

// FindSandbox implements store.Store.
func (t sandboxTable) FindSandbox(ctx context.Context, prefix string) (api.SandboxID, error) {
	return t.find(ctx, "", prefix)
}

// FindSandboxOf implements store.Store.
func (t sandboxTable) FindSandboxOf(ctx context.Context, account, prefix string) (api.SandboxID, error) {
	return t.find(ctx, account, prefix)
}

func sandboxWhere(f store.SandboxFilter) (w where) {
	in(&w, "state", f.States)
	w.equals("account", f.Account)
	w.equals("owner", string(f.Owner))
	w.notEquals("owner", string(f.NotOwner))
	w.equals("task", string(f.Task))
	w.equals("workspace", string(f.Workspace))
	return w
}

// provisionedSQL finds the newest sandbox of a provision request's task: ?3 includes ended
// ones. A sandbox without an account is the operator's.
const provisionedSQL = `SELECT ` + sandboxColumns + ` FROM sandbox
	WHERE provision = ?1 AND account IS ?2 AND (?3 OR state NOT IN ('ended', 'lost'))
	ORDER BY created_at DESC, seq DESC LIMIT 1`

// ProvisionedOf implements store.Store.
func (t sandboxTable) ProvisionedOf(ctx context.Context, account, task string, ended bool) (api.Sandbox, error) {
	if err := t.ahead.flush(ctx); err != nil {
		return api.Sandbox{}, err
	}
	s, err := t.scan(t.db.read.QueryRowContext(ctx, provisionedSQL, task, nullable(account), ended))
	if errors.Is(err, sql.ErrNoRows) {
		return s, notFound("provisioned sandbox", task)
	}
	if err != nil {
		return s, wrapError(ctx, err, "read the sandbox of task %.128q", task)
	}
	return s, nil
}

func scanSandbox(k *sealed.Sealer) func(scanner) (api.Sandbox, error) {
	return func(r scanner) (api.Sandbox, error) {
		var row sealed.SandboxDoc
		err := scanRow(r, "sandbox", &row, &row.ID, text(&row.Owner), &row.State, text(&row.Task),
			instant{&row.CreatedAt}, instant{&row.ExpiresAt}, instant{&row.EndedAt})
		return k.OpenSandbox(row), err
	}
}
