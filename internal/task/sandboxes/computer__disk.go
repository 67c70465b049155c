package sandboxes

import (
	"errors"
	"syscall"

	"hortus.dev/api"
)

// Disk returns the directory whose disk has the files of workspaces.
func (p *Provider) Disk() string { return p.cfg.Workspaces.Dir() }

// full says which disk is full, if that is why something failed.
func full(dir string, err error) error {
	if !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) {
		return err
	}
	return api.Errorf(api.KindExhausted, "no space left on the disk of %s: %w", dir, err).WithHint("Free disk space: hortus gc. hortus df shows the usage.")
}
