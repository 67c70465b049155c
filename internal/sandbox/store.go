package sandbox

import (
	"context"

	"hortus.dev/api"
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

// Templates returns the layers of a template, the lowest first. It fails with KindNotFound
// for an unknown name.
type Templates interface {
	Layers(ctx context.Context, name string) ([]layer.Digest, error)
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
	Remove(ctx context.Context, id api.SnapshotID, reason string) (api.Snapshot, error)
}
