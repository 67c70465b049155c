package store

import (
	"time"

	"hortus.dev/api"
)

// Owner is one run of one daemon on one host. While it lives it holds the lock
// on the file LockPath; whoever can take that lock knows that the owner is gone.
type Owner struct {
	ID       api.OwnerID
	Host     string // the host's name for itself
	LockPath string // an absolute path on that host
	PID      int    // for people; no proof of anything
	// EndedAt is zero until the owner left or was found dead.
	StartedAt, EndedAt time.Time
}

// SandboxFilter selects sandboxes. A zero field does not filter.
type SandboxFilter struct {
	States []api.SandboxState
	Owner  api.OwnerID
	// NotOwner leaves out the sandboxes of one owner; those without any stay.
	NotOwner api.OwnerID
	Task     api.TaskID
	// Account leaves out what belongs to others; the operator's own, of account
	// "", cannot be asked for.
	Account string
	Limit   int // the most rows; 0 means all
	// After is where the page begins; the lists that are no pages leave it unused.
	After Cursor
}

// WorkspaceFilter selects workspaces. A zero field does not filter.
type WorkspaceFilter struct {
	States []api.WorkspaceState
	Owner  api.OwnerID
	Task   api.TaskID
	Limit  int // the most rows; 0 means all
}

// SnapshotFilter selects snapshots. A zero field does not filter.
type SnapshotFilter struct {
	States  []api.SnapshotState
	Owner   api.OwnerID
	Sandbox api.SandboxID
	Name    string
	Account string // as in SandboxFilter
	Limit   int    // the most rows; 0 means all
	// After is where the page begins; the lists that are no pages leave it unused.
	After Cursor
	// Templates leaves out all but the operator's snapshots with a name.
	Templates bool
}

// KeyFilter selects API keys. A zero field does not filter.
type KeyFilter struct {
	Account string
	// Working leaves out the keys that were revoked.
	Working bool
	Limit   int // the most rows; 0 means all
	// After is where the page begins; the lists that are no pages leave it unused.
	After Cursor
}

// ExecFilter selects commands. A zero field does not filter.
type ExecFilter struct {
	Sandbox api.SandboxID
	States  []api.ExecState
	Limit   int // the most rows; 0 means all
	// After is where the page begins; the lists that are no pages leave it unused.
	After Cursor
}

// TaskFilter selects tasks. A zero field does not filter.
type TaskFilter struct {
	States []api.TaskState
	Owner  api.OwnerID
	// NotOwner leaves out the tasks of one owner; those without any stay.
	NotOwner api.OwnerID
	// Since leaves out the tasks that were created before.
	Since time.Time
	// Account is as in SandboxFilter.
	Account string
	Limit   int // the most rows; 0 means all
	// WithAttempts reads each task's attempts too.
	WithAttempts bool
	// After is where the page begins; the lists that are no pages leave it unused.
	After Cursor
	// Programs leaves out tasks on repositories.
	Programs bool
}
