package gvisor

import (
	"context"
	"os"
	"path/filepath"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail"
	"hortus.dev/internal/sandbox"
)

// Config says what a Backend works with.
type Config struct {
	// Jail is what sandboxes are born in; Name, Guest's place in the sandbox and
	// Kernel are set here.
	Jail jail.Config
	// Tools is a directory with runsc as RunscName and the guest's executable as
	// GuestName below keeper.GuestDir, which nobody but the daemon's user may change.
	// Empty means that this build has none: Missing says why and how to get it.
	Tools   string
	Missing api.Ability
	// Version names runsc, exactly: images of one version are restored by no other.
	// GuestDigest names the guest's executable in the same way.
	Version, GuestDigest string
}

// The names of the programs below Config.Tools.
const (
	RunscName = "hortus-runsc"
	GuestName = "hortus-guest"
)

// Backend starts guests on kernels of their own.
type Backend struct {
	*jail.Backend
	cfg Config
}

// New prepares a backend. It starts nothing and succeeds also on a host that cannot
// run a sandbox, which Probe then says.
func New(cfg Config) (*Backend, error) {
	cfg.Jail.Name = "gvisor"
	cfg.Jail.Kernel = &kernel{tools: cfg.Tools}
	cfg.Jail.Image = cfg.mark
	if cfg.Tools != "" {
		for _, name := range []string{RunscName, filepath.Join("guest", GuestName)} {
			if _, err := os.Stat(filepath.Join(cfg.Tools, name)); err != nil {
				return nil, api.Errorf(api.KindInvalid, "gvisor backend: %w", err)
			}
		}
	}
	b, err := jail.New(cfg.Jail)
	if err != nil {
		return nil, err
	}
	return &Backend{Backend: b, cfg: cfg}, nil
}

// Mark says which images can be restored here. See sandbox.Restorer.
func (b *Backend) Mark(_ context.Context, kind api.SnapshotKind) (api.ImageMark, error) {
	if kind != api.SnapshotMemory {
		return api.ImageMark{}, api.Errorf(api.KindUnsupported, "the gvisor backend has snapshots with memory alone, none of kind %q", kind)
	}
	return b.cfg.mark(), nil
}

func (c *Config) mark() api.ImageMark {
	return api.ImageMark{Backend: c.Jail.Name, Kernel: c.Version, Guest: c.GuestDigest, CPU: cpu()}
}

// Expect makes the kernel for a state that is about to be saved. See
// sandbox.Expecter.
func (b *Backend) Expect(ctx context.Context, spec sandbox.Spec, dir string) (sandbox.Expected, error) {
	return b.BeginRestore(ctx, spec, dir)
}
