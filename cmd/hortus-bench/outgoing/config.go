package outgoing

import (
	"context"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
	"hortus.dev/cmd/hortus-bench/figure"
	"hortus.dev/cmd/hortus-bench/program"
	"hortus.dev/internal/sandbox/manager"
)

// Config is what a measurement needs. Every field is required.
type Config struct {
	// N is the number of samples, Backends are those that are measured.
	N        int
	Backends []string
	// Report gets each row, Step how far the measurement of a backend is.
	Report func(figure.Row)
	Step   func(backend string, done, of int)
	// Sandboxes is the manager of a daemon in this process, which serves connections to Outside.
	Sandboxes *manager.Manager
	Outside   Outside
	// Create makes a sandbox with as many processors, if its backend limits them, that may use
	// a secret. Kill ends it.
	Create func(ctx context.Context, backend string, cpus float64, grant api.SecretGrant) (api.SandboxID, error)
	// Secret stores a secret for the time of the measurement.
	Secret func(ctx context.Context, b secrets.Binding, value string) (grant api.SecretGrant, remove func(), err error)
	Kill   func(api.SandboxID)
	// In runs a command in a sandbox, Talk starts one that answers lines.
	In   func(ctx context.Context, id api.SandboxID, argv []string) (string, error)
	Talk func(ctx context.Context, id api.SandboxID, argv []string) (*program.Talk, error)
	// CPU returns the processor time of a sandbox.
	CPU func(api.SandboxID) func(context.Context) (time.Duration, error)
}

// run is one call of Measure.
type run struct{ Config }
