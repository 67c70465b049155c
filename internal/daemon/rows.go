package daemon

import (
	"context"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

// rows gives the manager and the task engine the few lists that they ask for, in
// their words, over the store's filters.
type rows struct{ store.Store }

// liveStates are the states of a sandbox that is not final.
var liveStates = []api.SandboxState{api.SandboxStarting, api.SandboxRunning, api.SandboxPaused}

// listMost bounds a list of everything that ever was.
const listMost = 1000

// ListSandboxes implements sandbox.Rows.
func (r rows) ListSandboxes(ctx context.Context, all bool) ([]api.Sandbox, error) {
	f := store.SandboxFilter{States: liveStates}
	if all {
		f = store.SandboxFilter{Limit: listMost}
	}
	return r.Sandboxes(ctx, f)
}

// ListExecs implements sandbox.Rows.
func (r rows) ListExecs(ctx context.Context, id api.SandboxID) ([]api.Exec, error) {
	return r.Execs(ctx, store.ExecFilter{Sandbox: id})
}

// UnfinishedTasks implements task.Store.
func (r rows) UnfinishedTasks(ctx context.Context, notOwner api.OwnerID) ([]api.Task, error) {
	return r.Tasks(ctx, store.TaskFilter{
		States: []api.TaskState{api.TaskPending, api.TaskRunning}, NotOwner: notOwner, WithAttempts: true,
	})
}

// ListSnapshots implements snapshot.Rows.
func (r rows) ListSnapshots(ctx context.Context, all bool) ([]api.Snapshot, error) {
	f := store.SnapshotFilter{States: []api.SnapshotState{api.SnapshotSaving, api.SnapshotReady}}
	if all {
		f = store.SnapshotFilter{Limit: listMost}
	}
	return r.Snapshots(ctx, f)
}

// ListWorkspaces implements workspace.Rows.
func (r rows) ListWorkspaces(ctx context.Context) ([]api.Workspace, error) {
	return r.Workspaces(ctx, store.WorkspaceFilter{States: []api.WorkspaceState{api.WorkspaceIdle, api.WorkspaceActive}})
}
