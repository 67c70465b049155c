package gvisor

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail"
	"hortus.dev/internal/platform/processor"
	"hortus.dev/internal/sandbox"
)

// Config configures a Backend.
type Config struct {
	// Jail is the jail of the sandboxes; New sets its Name, Kernel and Image.
	Jail jail.Config
	// Tools is a directory with runsc, named RunscName, and the guest's executable, named
	// GuestName, in keeper.GuestDir. Only the daemon's user may change it. Empty means that
	// this build has none; Missing says why and how to get it.
	Tools   string
	Missing api.Ability
	// Version is the exact version of runsc, and GuestDigest the digest of the guest's
	// executable. An image can be restored only with the same ones.
	Version, GuestDigest string
	// CopyMemory makes restored sandboxes copy the memory of their image instead of
	// referring to it. It is for runsc without the changes of cmd/hortus-runsc/patch, and for
	// comparisons. An image that refers to others is restored by reference all the same.
	CopyMemory bool
}

// SharesMemory reports whether a version of runsc can make restored memory refer to its image:
// whether it has the changes of cmd/hortus-runsc/patch.
func SharesMemory(version string) bool { return strings.Contains(version, "+") }

// The names of the programs below Config.Tools.
const (
	RunscName = "hortus-runsc"
	GuestName = "hortus-guest"
)

// Backend starts guests with their own kernels.
type Backend struct {
	*jail.Backend
	cfg Config
}

var _ sandbox.Backend = (*Backend)(nil)

// New prepares a backend. It starts nothing and succeeds also on a host that cannot
// run a sandbox, which Probe then says.
func New(cfg Config) (*Backend, error) {
	cfg.Jail.Name = "gvisor"
	cfg.Jail.Kernel = &kernel{tools: cfg.Tools, copies: cfg.CopyMemory}
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

// Mark is the mark of the images that can be restored here. See sandbox.Backend.
func (b *Backend) Mark(_ context.Context, kind api.SnapshotKind) (api.ImageMark, error) {
	if kind != api.SnapshotMemory {
		return api.ImageMark{}, api.Errorf(api.KindUnsupported, "the gvisor backend supports memory snapshots only, not of kind %q", kind)
	}
	return b.cfg.mark(), nil
}

func (c *Config) mark() api.ImageMark {
	return api.ImageMark{Backend: c.Jail.Name, Kernel: c.Version, Guest: c.GuestDigest, CPU: processor.Features()}
}
