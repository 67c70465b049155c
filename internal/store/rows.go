package store

import (
	"time"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
)

// Owner is a run of a daemon on a host. While it runs it holds the lock on the file
// LockPath; if the lock is free, the owner has ended.
type Owner struct {
	ID       api.OwnerID
	Host     string // the host's name for itself
	LockPath string // an absolute path on that host
	PID      int    // informational: it may be reused
	// BeatAt is when the owner last renewed its lease; zero if it never did. EndedAt is zero
	// until the owner ended or was found dead.
	StartedAt, BeatAt, EndedAt time.Time
}

// SandboxFilter selects sandboxes. A zero field does not filter.
type SandboxFilter struct {
	States []api.SandboxState
	Owner  api.OwnerID
	// NotOwner excludes the sandboxes of an owner; those without one are included.
	NotOwner api.OwnerID
	Task     api.TaskID
	// Workspace selects those that have it at /workspace, or had it.
	Workspace api.WorkspaceID
	// Account selects one account; "" selects all, so the operator's own cannot be
	// selected alone.
	Account string
	Limit   int // maximum number of rows; 0 means all
	// After is where the page begins; only pages use it.
	After Cursor
}

// WorkspaceFilter selects workspaces. A zero field does not filter.
type WorkspaceFilter struct {
	States  []api.WorkspaceState
	Owner   api.OwnerID
	Task    api.TaskID
	Name    string
	Account string // as in SandboxFilter
	// NoAccount selects the operator's own.
	NoAccount bool
	// Keep selects those that garbage collection never removes.
	Keep  bool
	Limit int // maximum number of rows; 0 means all
	// After is where the page begins; only pages use it.
	After Cursor
}

// SnapshotFilter selects snapshots. A zero field does not filter.
type SnapshotFilter struct {
	States  []api.SnapshotState
	Owner   api.OwnerID
	Sandbox api.SandboxID
	Name    string
	Account string // as in SandboxFilter
	Limit   int    // maximum number of rows; 0 means all
	// After is where the page begins; only pages use it.
	After Cursor
	// Templates selects the operator's named snapshots.
	Templates bool
}

// RepositoryFilter selects connected repositories. A zero field does not filter.
type RepositoryFilter struct {
	States  []api.RepositoryState
	Name    string
	Account string // as in SandboxFilter
	// Operators selects the operator's own.
	Operators bool
	Limit     int // maximum number of rows; 0 means all
	// After is where the page begins; only pages use it.
	After Cursor
}

// KeyFilter selects API keys. A zero field does not filter.
type KeyFilter struct {
	Account string
	// Working excludes revoked keys.
	Working bool
	Limit   int // maximum number of rows; 0 means all
	// After is where the page begins; only pages use it.
	After Cursor
}

// ExecFilter selects commands. A zero field does not filter.
type ExecFilter struct {
	Sandbox api.SandboxID
	States  []api.ExecState
	Limit   int // maximum number of rows; 0 means all
	// After is where the page begins; only pages use it.
	After Cursor
}

// TaskFilter selects tasks. A zero field does not filter.
type TaskFilter struct {
	States []api.TaskState
	Owner  api.OwnerID
	// NotOwner excludes the tasks of an owner; those without one are included.
	NotOwner api.OwnerID
	// Since excludes tasks that were created before it.
	Since time.Time
	// Account is as in SandboxFilter.
	Account string
	Limit   int // maximum number of rows; 0 means all
	// WithAttempts reads each task's attempts too.
	WithAttempts bool
	// After is where the page begins; only pages use it.
	After Cursor
	// Programs excludes tasks on repositories.
	Programs bool
}

// EgressFilter selects decisions about outgoing connections. A zero field does not filter.
type EgressFilter struct {
	Account string // as in SandboxFilter
	Sandbox api.SandboxID
	Task    api.TaskID
	Result  api.EgressResult
	// Host is a host, or "*.example.org" for the names below one.
	Host string
	// Since excludes decisions before it, Until those at it or later.
	Since, Until time.Time
	Limit        int // maximum number of rows; 0 means all
	// After is where the page begins; only pages use it.
	After Cursor
}

// SecretFilter selects the secrets of an account.
type SecretFilter struct {
	Account string // "" is the operator's own
	Limit   int    // maximum number of rows
	// After is where the page begins.
	After Cursor
}

// SecretUseFilter selects the uses of an account's secrets.
type SecretUseFilter struct {
	Account string // "" is the operator's own
	secrets.UseFilter
	Limit int // maximum number of rows
	// After is where the page begins.
	After Cursor
}
