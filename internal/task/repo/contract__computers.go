package repo

import (
	"context"

	"hortus.dev/api"
	"hortus.dev/internal/repository/filerule"
	"hortus.dev/internal/repository/forge/policy"
	"hortus.dev/internal/repository/git"
	"hortus.dev/internal/repository/git/cache"
)

// Workspace is where a sandbox of a repository has its files.
const Workspace = "/workspace"

// Agents has the programs of agents, and their home directories. A setup of a repository puts nothing there.
const Agents = Workspace + "/.git/hortus/agents"

// Layer names an immutable file tree.
type Layer string

// Computers makes the places where things run, and keeps their files.
type Sandboxes interface {
	// Layer returns the tree of that key, which build writes below dir where it is
	// not there yet. It stays until release is called.
	Layer(ctx context.Context, key string, build func(ctx context.Context, dir string) error) (l Layer, release func(), err error)
	// Over makes a layer of changes above base, which stays until release is called.
	// It is used with base below it.
	Over(ctx context.Context, base []Layer, changes []cache.Change) (l Layer, release func(), err error)
	// Workspace makes durable files above layers, the lowest first.
	Workspace(ctx context.Context, task api.TaskID, layers ...Layer) (api.WorkspaceID, error)
	// Fork makes a copy of durable files that nobody has, for a task. What was written in both stays shared.
	Fork(ctx context.Context, task api.TaskID, from api.WorkspaceID) (api.WorkspaceID, error)
	// Attach makes a task the owner of a workspace that a person named, which lies on
	// layers and which nobody uses; if there is none of that name, it makes it.
	// KindConflict names what does not fit.
	Attach(ctx context.Context, task api.TaskID, nameOrID string, layers ...Layer) (api.WorkspaceID, error)
	// Adopt makes a task the owner of a workspace of another one, whose it must be;
	// KindNotFound if it was removed, KindConflict if it has another owner.
	Adopt(ctx context.Context, id api.WorkspaceID, from, to api.TaskID) error
	// Discard removes a workspace, if it is there.
	Discard(ctx context.Context, id api.WorkspaceID) error
	// Changes reads what was written in a workspace, while nobody has it. dirs have the
	// repositories, if there are several. The second result is what cannot be taken, with
	// the reasons.
	Changes(ctx context.Context, id api.WorkspaceID, dirs ...string) ([]cache.Change, []api.RefusedChange, func(), error)
	// Open starts a sandbox over a workspace, in which not everything can be changed.
	Open(ctx context.Context, req api.CreateSandbox, id api.WorkspaceID, access []filerule.Access) (Sandbox, error)
	// Clean starts a sandbox over layers, the lowest first, whose changes are lost
	// with it. It runs what was written in the workspace of, if that is not empty, and may do no
	// more than the sandboxes over it.
	Clean(ctx context.Context, req api.CreateSandbox, of api.WorkspaceID, layers ...Layer) (Sandbox, error)
}

// Computer is a sandbox. When a Run's context ends, all of it is killed.
type Sandbox interface {
	AgentSandbox
	Info() api.Sandbox
	// Close kills everything in it and frees it. It is idempotent.
	Close(ctx context.Context) (api.Proof, error)
}

// Deliverer brings a branch to the people who review it.
type Deliverer interface {
	// Check is asked before anything is pushed. It says what the branch policy has
	// against a delivery, and what a merge request will aim at. For one it asks the
	// forge, and changes nothing there; an error means that it could not tell.
	Check(ctx context.Context, d Proposal) (Verdict, error)
	// Open opens the merge request of a branch that was pushed, or finds the one
	// that is open already. Beside an error it gives the one that exists all the
	// same.
	Open(ctx context.Context, d Proposal) (api.Delivery, error)
	// Source is where the branch is pushed to, with what opens it.
	Source(ctx context.Context, remote string) (git.Source, error)
}

// Proposal is a branch with its evidence.
type Proposal struct {
	Task   api.Task
	Remote string
	Branch string
	// Target is empty for the forge's default branch.
	Target string
	// MergeRequest is true if more is wanted than a branch.
	MergeRequest, Draft bool
	Files               []policy.File
}

// Verdict is what a [Deliverer] says before a push.
type Verdict struct {
	// Target is what a merge request will aim at.
	Target  string
	Refused []api.PolicyRefusal
}

// Emitter takes the facts of a task as they happen, in order.
type Emitter interface {
	Emit(ctx context.Context, t api.EventType, data any)
}
