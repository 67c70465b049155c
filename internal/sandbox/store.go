package sandbox

import (
	"context"

	"hortus.dev/api"
	"hortus.dev/internal/storage/layer"
)

// Rows is where the manager keeps what exists. Its methods fail with
// KindNotFound and KindExists as their names suggest, and refuse to take a final
// row back to life.
type Rows interface {
	InsertSandbox(ctx context.Context, s api.Sandbox) error
	UpdateSandbox(ctx context.Context, s api.Sandbox) error
	Sandbox(ctx context.Context, id api.SandboxID) (api.Sandbox, error)
	// ListSandboxes gives the newest first; final ones too when all is set.
	ListSandboxes(ctx context.Context, all bool) ([]api.Sandbox, error)
	FindSandbox(ctx context.Context, prefix string) (api.SandboxID, error)

	InsertExec(ctx context.Context, e api.Exec) error
	UpdateExec(ctx context.Context, e api.Exec) error
	Exec(ctx context.Context, id api.ExecID) (api.Exec, error)
	ListExecs(ctx context.Context, id api.SandboxID) ([]api.Exec, error)
}

// Log is where the manager's facts go.
type Log interface {
	Append(ctx context.Context, s api.Stream, t api.EventType, data any) (api.Event, error)
}

// Templates turns a template's name into layers, the lowest first. It fails with
// KindNotFound for a name that it does not know.
type Templates interface {
	Layers(ctx context.Context, name string) ([]layer.Digest, error)
}

// Snapshots is where saved states are kept.
type Snapshots interface {
	// Write makes a snapshot of what save writes into dir, an empty directory;
	// save fills in what is known only afterwards. need is about how many bytes
	// that will be. After an error nothing is left.
	Write(ctx context.Context, s api.Snapshot, need int64, save func(ctx context.Context, dir string, s *api.Snapshot) error) (api.Snapshot, error)
	// Scratch makes an empty directory for an image that is needed for a moment.
	Scratch(need int64) (dir string, remove func() error, err error)
	// Use gives the directory of a snapshot, which is ready and whole, and stays
	// until done is called.
	Use(ctx context.Context, id api.SnapshotID) (s api.Snapshot, dir string, done func(), err error)
	Snapshot(ctx context.Context, id api.SnapshotID) (api.Snapshot, error)
	// Snapshots gives the newest first; final ones too when all is set.
	Snapshots(ctx context.Context, all bool) ([]api.Snapshot, error)
	// Template finds the snapshot that a name means to an account: its own, or
	// else the operator's; KindNotFound for none.
	Template(ctx context.Context, account, name string) (api.Snapshot, error)
	Find(ctx context.Context, nameOrPrefix string) (api.SnapshotID, error)
	Remove(ctx context.Context, id api.SnapshotID, reason string) (api.Snapshot, error)
}
