package sandbox

import (
	"context"
	"path/filepath"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox/tether"
	"hortus.dev/internal/storage/layer"
)

// Rows stores the records of sandboxes and commands. Its methods fail with KindNotFound and
// KindExists, and refuse to change a final state.
type Rows interface {
	InsertSandbox(ctx context.Context, s api.Sandbox) error
	UpdateSandbox(ctx context.Context, s api.Sandbox) error
	Sandbox(ctx context.Context, id api.SandboxID) (api.Sandbox, error)
	// ListSandboxes returns the newest first; those in a final state only if all is set.
	ListSandboxes(ctx context.Context, all bool) ([]api.Sandbox, error)
	FindSandbox(ctx context.Context, prefix string) (api.SandboxID, error)

	InsertExec(ctx context.Context, e api.Exec) error
	UpdateExec(ctx context.Context, e api.Exec) error
	Exec(ctx context.Context, id api.ExecID) (api.Exec, error)
	ListExecs(ctx context.Context, id api.SandboxID) ([]api.Exec, error)
}

// Log stores the manager's events.
type Log interface {
	Append(ctx context.Context, s api.Stream, t api.EventType, data any) (api.Event, error)
}

// Templates are what sandboxes start from.
type Templates interface {
	// Layers returns the layers of a template, the lowest first. It fails with KindNotFound
	// for an unknown name.
	Layers(ctx context.Context, name string) ([]layer.Digest, error)
	// Shows reports whether a layer with the programs of a host has those of this host as they are now.
	Shows(d layer.Digest) (bool, error)
}

// Snapshots stores saved states.
type Snapshots interface {
	// Write creates a snapshot from what save writes into dir, an empty directory. save
	// completes s. need is the estimated size in bytes. Nothing is left after an error.
	Write(ctx context.Context, s api.Snapshot, need int64, save func(ctx context.Context, dir string, s *api.Snapshot) error) (api.Snapshot, error)
	// Scratch creates an empty directory for a temporary image of about need bytes.
	Scratch(need int64) (dir string, remove func() error, err error)
	// Use returns the directory of a snapshot that is ready and verified. The snapshot is
	// not removed until done is called.
	Use(ctx context.Context, id api.SnapshotID) (s api.Snapshot, dir string, done func(), err error)
	Snapshot(ctx context.Context, id api.SnapshotID) (api.Snapshot, error)
	// Snapshots returns the newest first; those in a final state only if all is set.
	Snapshots(ctx context.Context, all bool) ([]api.Snapshot, error)
	// Template returns the snapshot with a template's name: the account's own or else the
	// operator's. It fails with KindNotFound if there is none.
	Template(ctx context.Context, account, name string) (api.Snapshot, error)
	Find(ctx context.Context, nameOrPrefix string) (api.SnapshotID, error)
	// Tag adds names to a template, which others lose; Untag takes one. A snapshot that loses its
	// last name is removed.
	Tag(ctx context.Context, id api.SnapshotID, names []string) (api.Snapshot, error)
	Untag(ctx context.Context, id api.SnapshotID, name string) (api.Snapshot, error)
	Remove(ctx context.Context, id api.SnapshotID, reason string) (api.Snapshot, error)
	// Archive stores a copy where other hosts with the same rows can use it, and returns when it is stored. It fails with
	// KindUnsupported if there is no such place.
	Archive(ctx context.Context, id api.SnapshotID) (api.Snapshot, error)
}

// Need is the capacity that one sandbox takes on its host: its limits.
type Need struct {
	// Account is the account in whose queue the sandbox waits.
	Account string
	// Memory and Disk are in bytes. Disk is on the host's data directory only; the
	// sandbox's own disk is memory. CPUs is a number of processors.
	Memory, Disk int64
	CPUs         float64
}

// Admission limits the capacity that all sandboxes of one host take together.
type Admission interface {
	// Try takes the capacity if it is available now, and returns nil if it is not.
	Try(Need) (release func())
	// Admit takes the capacity, in the order of requests. While it waits it calls told
	// with the reason and the position, from its own goroutine; without a wait it does
	// not call told.
	Admit(ctx context.Context, n Need, told func(api.WaitingEvent)) (release func(), err error)
	// Hold counts a sandbox that exists already.
	Hold(Need) (release func())
}

// Op names a step of the manager's work.
type Op string

const (
	OpCreate  Op = "create"  // from the request until the sandbox responds
	OpAdmit   Op = "admit"   // the wait for capacity on the host
	OpBoot    Op = "boot"    // a backend starts a guest
	OpClaim   Op = "claim"   // a pooled guest gets its sandbox
	OpRestore Op = "restore" // a guest starts from a saved state
	OpExec    Op = "exec"    // from the request for a command to its recorded end
	OpKill    Op = "kill"    // until it is proven that nothing is left
)

// Way is how a sandbox was created.
type Way string

const (
	WayPooled    Way = "pooled"
	WayCold      Way = "cold"
	WayWorkspace Way = "workspace" // never pooled
	WaySnapshot  Way = "snapshot"
)

// Step describes a step when it begins.
type Step struct {
	Op Op
	// Sandbox and Exec are empty if they do not exist yet.
	Sandbox api.SandboxID
	Exec    api.ExecID
	// After is what Watcher.Mark returned for the creation of the sandbox. It is set for
	// the first command only.
	After context.Context
}

// Outcome is how a step ended. Only the kind of Err may be recorded: its text can contain
// user data.
type Outcome struct {
	Sandbox   api.SandboxID
	Isolation string
	Way       Way
	Exit      *api.Exit
	Err       error
}

// Watcher observes what a manager does, for metrics and traces. Its methods are called from
// many goroutines and must not block.
type Watcher interface {
	// Begin is called when a step begins. Work with the returned context belongs to the
	// step. end is called once, when the step has ended.
	Begin(ctx context.Context, s Step) (_ context.Context, end func(Outcome))
	// Mark returns a context that identifies the step of ctx and holds nothing else of
	// it.
	Mark(ctx context.Context) context.Context
}

// EgressServer decides on the outgoing connections of sandboxes and makes them.
type EgressServer interface {
	// Resolve validates a policy, and appends the rules of its presets. It returns the
	// environment variables with which programs in the sandbox use the hosts of the
	// presets, such as the address of a package mirror.
	//
	// Errors: KindInvalid for an invalid rule or an unknown preset.
	Resolve(ctx context.Context, p api.EgressPolicy) (_ api.EgressPolicy, env map[string]string, err error)

	// Headers validates header rules, whose secrets are those of an account, and returns them
	// with their defaults.
	//
	// Errors: KindInvalid for a malformed rule, KindNotFound for an unknown secret, and KindDenied
	// for one that is not for headers.
	Headers(ctx context.Context, account string, rules []api.HeaderRule) ([]api.HeaderRule, error)

	// Secrets returns what a sandbox needs to use secrets of an account: rules that allow the
	// hosts of their bindings, and variables that have a fresh placeholder for each secret.
	//
	// Errors: KindNotFound for an unknown secret.
	Secrets(ctx context.Context, account string, grants []api.SecretGrant) (rules []api.EgressRule, env map[string]string, err error)

	// SecretRules returns the rules that a secret of an account needs now, as Secrets does.
	// KindNotFound if there is no such secret.
	SecretRules(ctx context.Context, account, name string) ([]api.EgressRule, error)

	// Serve begins to serve the connections of a sandbox by the policy and the ceiling in its
	// row, until the session is closed, and lets it use the secrets in its row, whose
	// placeholders are in its environment. It returns at once, without I/O. commands returns
	// the commands that are running in the sandbox.
	Serve(s api.Sandbox, link tether.Link, commands func() []string) EgressSession
}

// EgressSession serves the connections of one sandbox.
type EgressSession interface {
	// Hold replaces which secrets the sandbox may use by those in its row. The next Apply makes
	// it so. Without I/O.
	Hold(s api.Sandbox)
	// Apply replaces the policy. Connections that it does not allow are closed. If it allows
	// anything, Apply makes the programs of the sandbox trust the certificate authority of
	// its lineage first.
	Apply(ctx context.Context, p api.EgressPolicy) error
	// Close closes every connection and returns when none is left.
	Close()
}

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
