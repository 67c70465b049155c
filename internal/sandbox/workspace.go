package sandbox

import (
	"context"
	"path/filepath"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/storage/layer"
)

// Workspace is what a sandbox has at /workspace: read-only layers, and the place of changes.
type Workspace struct {
	// Layers are the lowest first. With an Upper they must be those that the workspace
	// was created with.
	Layers []layer.Digest
	// Upper is the durable workspace that stores the changes; the sandbox is its only
	// writer. If it is empty, changes are on the sandbox's own disk and end with it.
	Upper api.WorkspaceID
	// Access says which files cannot be changed, in order: a later entry is below an earlier
	// one or beside it. It is for an Upper only.
	Access []PathAccess `json:",omitempty"`
	// View requests a second, read-only mount of /workspace, at birth.ViewDir. It is for an
	// Upper only. A root without a directory /run gets none.
	View bool `json:",omitempty"`
}

// PathAccess says whether a file, or a directory with everything in it, can be changed.
type PathAccess struct {
	// Path is relative to /workspace, clean and without links, "." for all of it. It must
	// exist.
	Path     string
	ReadOnly bool
}

// Bounds of Workspace.Access: entries, and bytes of their paths.
const (
	MaxAccess      = 210 // those of a file policy, and of an agent's directory
	MaxAccessBytes = 16 << 10
)

// CheckAccess refuses an Access that is malformed or out of bounds: KindInvalid.
func (w *Workspace) CheckAccess() error {
	if len(w.Access) > 0 && w.Upper == "" {
		return api.Errorf(api.KindInvalid, "only a durable workspace can have read-only files")
	}
	if w.View && w.Upper == "" {
		return api.Errorf(api.KindInvalid, "only a durable workspace can have a read-only view")
	}
	total := 0
	for _, a := range w.Access {
		if total += len(a.Path); !filepath.IsLocal(a.Path) || filepath.Clean(a.Path) != a.Path || strings.ContainsRune(a.Path, 0) {
			return api.Errorf(api.KindInvalid, "%.200q is not a clean path in the workspace", a.Path)
		}
	}
	if len(w.Access) > MaxAccess || total > MaxAccessBytes {
		return api.Errorf(api.KindInvalid, "the workspace has too many read-only and writable paths; the maximum is %d", MaxAccess)
	}
	return nil
}

// WorkspaceForks makes the workspaces of the children of a fork. What it makes belongs to a task, or to nobody until Keep: the
// next daemon removes what a killed one made for children that never ran.
type WorkspaceForks interface {
	// Room reserves space for n workspaces that an account keeps, until done is called. Errors: KindExhausted.
	Room(ctx context.Context, account string, n int) (done func(), err error)
	// ForkStopping begins a fork of a workspace that a sandbox has.
	ForkStopping(ctx context.Context, id api.WorkspaceID, task api.TaskID) (WorkspaceCopy, error)
	// ForkAgain makes another fork, of one that ForkStopping made and that nobody has used.
	ForkAgain(ctx context.Context, id api.WorkspaceID, task api.TaskID) (api.WorkspaceID, error)
	// Mount returns what a sandbox needs to have a workspace.
	Mount(ctx context.Context, id api.WorkspaceID) (Workspace, error)
	// Keep makes a workspace, which a sandbox uses, its account's for good.
	Keep(ctx context.Context, id api.WorkspaceID) error
	// Discard removes a workspace that no sandbox uses.
	Discard(id api.WorkspaceID) error
}

// WorkspaceCopy is a fork that is being made. Finish must be called.
type WorkspaceCopy interface {
	// Copy copies the files while the sandbox is paused. It is called once. Errors: KindExhausted if too much was
	// written.
	Copy() error
	// Finish returns the fork, or why there is none. The sandbox need not be paused.
	Finish() (api.WorkspaceID, error)
}

// UpperLimit describes how the disk limit is enforced for a durable workspace.
const UpperLimit = "the host measures its disk usage periodically; a sandbox over the limit is killed shortly after"
