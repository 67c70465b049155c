package agent

import (
	"context"
	"time"

	"hortus.dev/api"
)

// Sandboxes makes the sandboxes that attempts run in.
type Sandboxes interface {
	// Create starts a fresh sandbox with an empty workspace. On an error
	// nothing is left.
	Create(ctx context.Context, req api.CreateSandbox) (Sandbox, error)
}

// Sandbox is what the Executor needs of one sandbox. Paths are relative to the
// workspace. All calls come from one goroutine, one at a time.
type Sandbox interface {
	Info() api.Sandbox
	// WriteFile makes a file with its parent folders.
	WriteFile(ctx context.Context, path string, content []byte, executable bool) error
	// ReadFile reads a regular file. It fails with KindNotFound when there is
	// none, with KindInvalid when it is no regular file, and with KindExhausted
	// when it holds more than max bytes.
	ReadFile(ctx context.Context, path string, max int64) ([]byte, error)
	// List lists the regular files below the workspace, some levels deep, but for those
	// in directories that hidden leaves out by their names. It fails with KindExhausted
	// when there are too many.
	List(ctx context.Context) ([]FileInfo, error)
	// Run runs a command and passes on its output, in order, as it comes;
	// stream is "stdout" or "stderr" and p is valid during the call only. It
	// returns the record with the exit when the command has ended, by itself,
	// by its timeout or by a limit; an error says that the end was not seen.
	Run(ctx context.Context, req api.ExecRequest, output func(stream string, p []byte) error) (api.Exec, error)
	// SetEgress replaces what the sandbox may connect to. When it returns, open connections
	// that the policy does not allow are closed. env are variables with which programs use
	// the hosts of its presets. KindUnsupported says that the backend cannot enforce it.
	SetEgress(ctx context.Context, p api.EgressPolicy) (env map[string]string, err error)
	// Close kills everything in the sandbox and frees it. It is idempotent.
	Close(ctx context.Context) (api.Proof, error)
}

// FileInfo is a file of a workspace.
type FileInfo struct {
	Path    string
	Size    int64
	ModTime time.Time
}

// Emitter takes the facts of a task as they happen, in order.
type Emitter interface {
	Emit(ctx context.Context, t api.EventType, data any)
}
