package lists

import (
	"context"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

// Lists has the rows of a store, and the lists that their users declare in interfaces.
type Lists struct{ store.Store }

// liveStates are the states of a sandbox that has not ended.
var liveStates = []api.SandboxState{api.SandboxStarting, api.SandboxRunning, api.SandboxPaused}

// liveWorkspaces are the states of a workspace that is not removed.
var liveWorkspaces = []api.WorkspaceState{api.WorkspaceIdle, api.WorkspaceActive}

// maxRows is the maximum number of rows of a list that includes ended ones.
const maxRows = 1000

// ListSandboxes implements sandbox.Rows.
func (r Lists) ListSandboxes(ctx context.Context, all bool) ([]api.Sandbox, error) {
	f := store.SandboxFilter{States: liveStates}
	if all {
		f = store.SandboxFilter{Limit: maxRows}
	}
	return r.Sandboxes(ctx, f)
}

// ListExecs implements sandbox.Rows.
func (r Lists) ListExecs(ctx context.Context, id api.SandboxID) ([]api.Exec, error) {
	return r.Execs(ctx, store.ExecFilter{Sandbox: id})
}

// UnfinishedTasks implements task.Store.
func (r Lists) UnfinishedTasks(ctx context.Context, notOwner api.OwnerID) ([]api.Task, error) {
	return r.Tasks(ctx, store.TaskFilter{
		States: []api.TaskState{api.TaskPending, api.TaskRunning}, NotOwner: notOwner, WithAttempts: true,
	})
}

// ListSnapshots implements snapshot.Rows.
func (r Lists) ListSnapshots(ctx context.Context, all bool) ([]api.Snapshot, error) {
	f := store.SnapshotFilter{States: []api.SnapshotState{api.SnapshotSaving, api.SnapshotReady}}
	if all {
		f = store.SnapshotFilter{Limit: maxRows}
	}
	return r.Snapshots(ctx, f)
}

// connectedStates are the states of a repository that is not removed.
func connectedStates() []api.RepositoryState {
	return []api.RepositoryState{api.RepositoryFetching, api.RepositoryReady, api.RepositoryFailed}
}

// ListRepositories implements connected.Rows.
func (r Lists) ListRepositories(ctx context.Context) ([]api.Repository, error) {
	return r.Repositories(ctx, store.RepositoryFilter{States: connectedStates()})
}

// NamedRepository implements connected.Rows.
func (r Lists) NamedRepository(ctx context.Context, account, name string) (api.Repository, error) {
	all, err := r.Repositories(ctx, store.RepositoryFilter{States: connectedStates(), Account: account, Operators: account == "", Name: name})
	if err == nil && len(all) == 0 {
		err = api.Errorf(api.KindNotFound, "unknown repository %.64q", name)
	}
	if err != nil {
		return api.Repository{}, err
	}
	return all[0], nil
}

// ListWorkspaces implements workspace.Rows.
func (r Lists) ListWorkspaces(ctx context.Context) ([]api.Workspace, error) {
	return r.Workspaces(ctx, store.WorkspaceFilter{States: liveWorkspaces})
}

// NamedWorkspaces implements workspace.Rows.
func (r Lists) NamedWorkspaces(ctx context.Context, account, name string) ([]api.Workspace, error) {
	return r.Workspaces(ctx, store.WorkspaceFilter{States: liveWorkspaces, Account: account, NoAccount: account == "", Name: name})
}

// KeptWorkspaces implements durable.Rows.
func (r Lists) KeptWorkspaces(ctx context.Context, account string, most int) (int, error) {
	rows, err := r.Workspaces(ctx, store.WorkspaceFilter{States: liveWorkspaces, Account: account, NoAccount: account == "", Keep: true, Limit: most})
	return len(rows), err
}
