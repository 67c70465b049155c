package lists

import (
	"context"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
	"hortus.dev/internal/store"
)

// pageOf reads a page: it converts the client's cursor to the store's and back.
func pageOf[T any](p api.PageRequest, read func(limit int, after store.Cursor) ([]T, store.Cursor, error)) ([]T, string, error) {
	limit, err := p.Rows()
	if err != nil {
		return nil, "", err
	}
	after, err := store.ParseCursor(p.Cursor)
	if err != nil {
		return nil, "", err
	}
	rows, next, err := read(limit, after)
	return rows, next.Token(), err
}

// SandboxesOf implements access.Rows.
func (r Lists) SandboxesOf(ctx context.Context, account string) ([]api.Sandbox, error) {
	return r.Sandboxes(ctx, store.SandboxFilter{Account: account, States: liveStates})
}

// SandboxPage implements access.Rows.
func (r Lists) SandboxPage(ctx context.Context, account string, all bool, p api.PageRequest) ([]api.Sandbox, string, error) {
	f := store.SandboxFilter{Account: account, States: liveStates}
	if all {
		f.States = nil
	}
	return pageOf(p, func(limit int, after store.Cursor) ([]api.Sandbox, store.Cursor, error) {
		f.Limit, f.After = limit, after
		return r.Store.SandboxPage(ctx, f)
	})
}

// ExecPage implements access.Rows.
func (r Lists) ExecPage(ctx context.Context, id api.SandboxID, p api.PageRequest) ([]api.Exec, string, error) {
	return pageOf(p, func(limit int, after store.Cursor) ([]api.Exec, store.Cursor, error) {
		return r.Store.ExecPage(ctx, store.ExecFilter{Sandbox: id, Limit: limit, After: after})
	})
}

// SnapshotPage implements access.Rows.
func (r Lists) SnapshotPage(ctx context.Context, account string, all bool, p api.PageRequest) ([]api.Snapshot, string, error) {
	f := store.SnapshotFilter{Account: account, States: []api.SnapshotState{api.SnapshotSaving, api.SnapshotReady}}
	if all {
		f.States = nil
	}
	return pageOf(p, func(limit int, after store.Cursor) ([]api.Snapshot, store.Cursor, error) {
		f.Limit, f.After = limit, after
		return r.Store.SnapshotPage(ctx, f)
	})
}

// WorkspacePage implements access.WorkspaceRows.
func (r Lists) WorkspacePage(ctx context.Context, account string, p api.PageRequest) ([]api.Workspace, string, error) {
	f := store.WorkspaceFilter{Account: account, States: liveWorkspaces}
	return pageOf(p, func(limit int, after store.Cursor) ([]api.Workspace, store.Cursor, error) {
		f.Limit, f.After = limit, after
		return r.Store.WorkspacePage(ctx, f)
	})
}

// TemplatePage implements access.Rows.
func (r Lists) TemplatePage(ctx context.Context, p api.PageRequest) ([]api.Snapshot, string, error) {
	return pageOf(p, func(limit int, after store.Cursor) ([]api.Snapshot, store.Cursor, error) {
		return r.Store.SnapshotPage(ctx, store.SnapshotFilter{States: []api.SnapshotState{api.SnapshotReady}, Templates: true, Limit: limit, After: after})
	})
}

// RepositoryPage implements connected.Rows.
func (r Lists) RepositoryPage(ctx context.Context, account string, p api.PageRequest) ([]api.Repository, string, error) {
	return pageOf(p, func(limit int, after store.Cursor) ([]api.Repository, store.Cursor, error) {
		return r.Store.RepositoryPage(ctx, store.RepositoryFilter{Account: account, States: connectedStates(), Limit: limit, After: after})
	})
}

// EgressPage implements access.Decisions.
func (r Lists) EgressPage(ctx context.Context, account string, f api.EgressFilter, p api.PageRequest) ([]api.EgressDecision, string, error) {
	return pageOf(p, func(limit int, after store.Cursor) ([]api.EgressDecision, store.Cursor, error) {
		return r.Store.EgressPage(ctx, store.EgressFilter{
			Account: account, Sandbox: f.Sandbox, Result: f.Result, Host: f.Host, Since: f.Since, Limit: limit, After: after,
		})
	})
}

// KeyPage implements key.Rows.
func (r Lists) KeyPage(ctx context.Context, all bool, p api.PageRequest) ([]api.Key, string, error) {
	return pageOf(p, func(limit int, after store.Cursor) ([]api.Key, store.Cursor, error) {
		return r.Store.KeyPage(ctx, store.KeyFilter{Working: !all, Limit: limit, After: after})
	})
}

// TaskPage implements the pages of access.Engine.
func (r Lists) TaskPage(ctx context.Context, account string, programs bool, p api.PageRequest) ([]api.Task, string, error) {
	return pageOf(p, func(limit int, after store.Cursor) ([]api.Task, store.Cursor, error) {
		return r.Store.TaskPage(ctx, store.TaskFilter{Account: account, Programs: programs, Limit: limit, After: after, WithAttempts: true})
	})
}

// SecretPage implements secret.Rows. Account "" is the operator's own.
func (r Lists) SecretPage(ctx context.Context, account string, p api.PageRequest) ([]secrets.Secret, string, error) {
	return pageOf(p, func(limit int, after store.Cursor) ([]secrets.Secret, store.Cursor, error) {
		return r.Store.SecretPage(ctx, store.SecretFilter{Account: account, Limit: limit, After: after})
	})
}

// SecretUsePage implements secret.Rows. Account "" is the operator's own.
func (r Lists) SecretUsePage(ctx context.Context, account string, f secrets.UseFilter, p api.PageRequest) ([]secrets.Use, string, error) {
	return pageOf(p, func(limit int, after store.Cursor) ([]secrets.Use, store.Cursor, error) {
		return r.Store.SecretUsePage(ctx, store.SecretUseFilter{Account: account, UseFilter: f, Limit: limit, After: after})
	})
}
