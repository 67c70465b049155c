package api

import (
	"strings"
	"time"
)

// WorkspaceState is where a workspace stands: idle until a sandbox or a reader has
// its lease, which makes it active; removed is final.
type WorkspaceState string

const (
	WorkspaceIdle    WorkspaceState = "idle"
	WorkspaceActive  WorkspaceState = "active"
	WorkspaceRemoved WorkspaceState = "removed"
)

// Workspace is durable file state over read-only layers.
type Workspace struct {
	ID    WorkspaceID    `json:"id"`
	State WorkspaceState `json:"state"`
	// Name is what its owner calls it; empty for none. It is unique among the
	// workspaces of an account that are not removed.
	Name string `json:"name,omitempty"`
	// Task is the task that it belongs to, if any.
	Task TaskID `json:"task,omitempty"`
	// Session is the session that it belongs to, if any.
	Session SessionID `json:"session,omitempty"`
	// Account owns it; empty is the operator's own.
	Account string `json:"account,omitempty"`
	// Keep is true if garbage collection never removes it.
	Keep bool `json:"keep,omitempty"`
	// QuotaBytes is the maximum size of everything that is written above the layers; 0 is
	// the disk limit of each sandbox that uses it.
	QuotaBytes int64 `json:"quotaBytes,omitempty"`
	// Parent is the workspace that it was forked from.
	Parent WorkspaceID `json:"parent,omitempty"`
	// Layers are the digests that it lies on, the lowest first.
	Layers    []string  `json:"layers"`
	Owner     OwnerID   `json:"owner,omitempty"`
	CreatedAt time.Time `json:"createdAt"`
	EndedAt   time.Time `json:"endedAt,omitzero"`
	// Reason is why it was removed.
	Reason string `json:"reason,omitempty"`
	// Sandbox is the live sandbox that uses it now. It is set in answers only.
	Sandbox SandboxID `json:"sandbox,omitempty"`
	// Usage is what was written; set in the answer about one workspace only.
	Usage *WorkspaceUsage `json:"usage,omitempty"`
	// Version is set if the workspace is shared between hosts: the last version that this host has.
	Version *WorkspaceVersion `json:"version,omitempty"`
	// Archived is the last state of its files that is in the archive, from which another node of a fleet continues; nil if there is none.
	Archived *WorkspaceArchive `json:"archived,omitempty"`
}

// WorkspaceArchive is a state of the files of a workspace in the archive of a fleet.
type WorkspaceArchive struct {
	// Ref is the name of what is stored, and Bytes its size before it was compressed.
	Ref   string `json:"ref"`
	Bytes int64  `json:"bytes"`
	// Of is the workspace whose files these are: this one, or a copy of it of the same instant.
	Of WorkspaceID `json:"of"`
	// Layers are what the files lie on, the lowest first.
	Layers []string `json:"layers"`
	// Task has worked on the files, and Step is the step of its journal that comes after this state.
	Task     TaskID    `json:"task"`
	Step     string    `json:"step"`
	StoredAt time.Time `json:"storedAt"`
}

// WorkspaceVersion is the files of a shared workspace as they are in the archive of layers.
type WorkspaceVersion struct {
	// Number grows with each version; 0 if none was stored yet.
	Number int `json:"number"`
	// Host has stored it.
	Host     string    `json:"host,omitempty"`
	StoredAt time.Time `json:"storedAt,omitzero"`
	// Conflict is the workspace with what was written on this host and could not become a version, because another host had
	// stored one meanwhile.
	Conflict WorkspaceID `json:"conflict,omitempty"`
	// Changed is true if something was written on this host since; Waiting says why it is not stored yet. Both are set in the
	// answer about one workspace only.
	Changed bool   `json:"changed,omitempty"`
	Waiting string `json:"waiting,omitempty"`
}

// WorkspaceUsage is the disk space that a workspace uses above its layers.
type WorkspaceUsage struct {
	Bytes int64 `json:"bytes"`
	// Files counts inodes: files, directories, links, and marks of removed files.
	Files int64 `json:"files"`
	// Incomplete says why the figures are a lower bound; empty if they are exact.
	Incomplete string `json:"incomplete,omitempty"`
	// Quota says how the quota is enforced.
	Quota string `json:"quota,omitempty"`
}

// CreateWorkspace requests an empty workspace.
type CreateWorkspace struct {
	// Name is 1 to 63 lower-case letters, digits and -; empty for none.
	Name string `json:"name,omitempty"`
	// QuotaBytes is the maximum size of its files; 0 is the daemon's default.
	QuotaBytes int64 `json:"quotaBytes,omitempty"`
	// Shared shares it with the other hosts that have the same archive of layers. If one of them shares a workspace of this name
	// already, this host gets its files. It needs a name.
	Shared bool `json:"shared,omitempty"`
}

// ForkWorkspace requests a copy of a workspace.
type ForkWorkspace struct {
	// Name is that of the copy; empty for none.
	Name string `json:"name,omitempty"`
}

// SealedWorkspace is the result of a seal.
type SealedWorkspace struct {
	Workspace Workspace `json:"workspace"`
	// Layer is the digest of the new layer; empty if nothing was written since the last seal.
	Layer string `json:"layer,omitempty"`
	// Usage is what the layer holds.
	Usage WorkspaceUsage `json:"usage"`
}

// WorkspaceExport says what an archive of a workspace has. It follows the archive, in the
// trailer Hortus-Export of the answer, as JSON.
type WorkspaceExport struct {
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
	// Refused are entries that are not in the archive, each with its reason, at most
	// MaxExportRefused. RefusedCount counts all.
	Refused      []RefusedChange `json:"refused,omitempty"`
	RefusedCount int             `json:"refusedCount,omitempty"`
	// Complete is true if everything was read.
	Complete bool `json:"complete"`
}

// MaxExportRefused bounds the list of a WorkspaceExport.
const MaxExportRefused = 50

// UpdateWorkspace changes a workspace.
type UpdateWorkspace struct {
	// QuotaBytes is the new quota, at least 1.
	QuotaBytes int64 `json:"quotaBytes"`
}

// ChangeKind says how a file differs from the layers below.
type ChangeKind string

const (
	ChangeAdded    ChangeKind = "added"
	ChangeModified ChangeKind = "modified"
	ChangeRemoved  ChangeKind = "removed"
)

// WorkspaceDiff is what a workspace changes over its layers. Paths, link targets and text
// come from a sandbox.
type WorkspaceDiff struct {
	Workspace WorkspaceID       `json:"workspace"`
	Changes   []WorkspaceChange `json:"changes"`
	// Refused are entries that are not in Changes, each with its reason.
	Refused []RefusedChange `json:"refused,omitempty"`
	// Complete is true if everything was read. If not, the last of Refused says which
	// limit was reached.
	Complete bool `json:"complete"`
	// Counts of all changes, and the bytes of the files that were added or modified.
	Added    int   `json:"added"`
	Modified int   `json:"modified"`
	Removed  int   `json:"removed"`
	Bytes    int64 `json:"bytes"`
}

// WorkspaceChange is one changed file.
type WorkspaceChange struct {
	Path string     `json:"path"`
	Kind ChangeKind `json:"kind"`
	// Mode is "regular", "executable" or "symlink"; empty for a removed file.
	Mode string `json:"mode,omitempty"`
	// Size is that of the file, OldSize that of the file in the layers, in bytes. The size
	// of a symlink is that of its target.
	Size    int64 `json:"size"`
	OldSize int64 `json:"oldSize"`
	// Text is a unified diff, if it was requested and both sides are short text.
	Text string `json:"text,omitempty"`
	// NoText says why there is none although it was requested.
	NoText string `json:"noText,omitempty"`
}

// MaxWorkspaces is the maximum number of workspaces of an account that garbage collection
// never removes.
const MaxWorkspaces = 1000

// MaxWorkspaceName bounds the name of a workspace, in bytes.
const MaxWorkspaceName = 63

// CheckWorkspaceName refuses what cannot be the name of a workspace: KindInvalid. A name
// that looks like an identifier is refused too.
func CheckWorkspaceName(name string) error {
	if name == "" || len(name) > MaxWorkspaceName || strings.Trim(name, idAlphabet+"-") != "" || name[0] == '-' || WorkspaceID(name).Valid() || name == "last" {
		return Errorf(KindInvalid, "%.80q is not a workspace name", name).
			WithHint("use 1 to %d lower-case letters, digits and -, and not the form of an ID", MaxWorkspaceName)
	}
	return nil
}
