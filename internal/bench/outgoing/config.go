package outgoing

import (
	"context"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/api/secrets"
	"hortus.dev/internal/sandbox/manager"
)

// Config is what a measurement needs. Every field is required, but for Divert.
type Config struct {
	// N is the number of samples, Backends are those that are measured.
	N        int
	Backends []string
	// Report gets each row, Step how far the measurement of a backend is.
	Report func(admin.BenchRow)
	Step   func(backend string, done, of int)
	// Fill sets the number of samples and the quantiles of a row.
	Fill func(*admin.BenchRow, []time.Duration)
	// Resident returns the resident memory of this process, in MB.
	Resident  func() (float64, error)
	Sandboxes *manager.Manager
	// Create makes a sandbox with as many processors, if its backend limits them, that may use
	// a secret. Kill ends it.
	Create func(ctx context.Context, backend string, cpus float64, grant api.SecretGrant) (api.SandboxID, error)
	// Secret stores a secret for the time of the measurement.
	Secret func(ctx context.Context, b secrets.Binding, value string) (grant api.SecretGrant, remove func(), err error)
	Kill   func(api.SandboxID)
	// In runs a command in a sandbox, Talk starts one that answers lines.
	In   func(ctx context.Context, id api.SandboxID, argv []string) (string, error)
	Talk func(ctx context.Context, id api.SandboxID, argv []string) (Talk, error)
	// CPU returns the processor time of a sandbox.
	CPU func(api.SandboxID) func(context.Context) (time.Duration, error)
	// Divert has the connections of a sandbox made as usual, but to servers that have their
	// names and authorities from o, once a policy is set and until restore is called. nil is
	// a daemon that serves no connections.
	Divert func(id api.SandboxID, o Outside) (restore func())
}

// Talk is a program in a sandbox that answers lines by lines.
type Talk struct {
	Ask   func(ctx context.Context, line string) (string, error)
	Close func()
}

// run is one call of Measure.
type run struct{ Config }
