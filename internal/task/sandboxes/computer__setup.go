package sandboxes

import (
	"context"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/workspace"
	"hortus.dev/internal/task/repo"
	"hortus.dev/internal/task/setup"
)

var _ setup.Sandboxes = (*Provider)(nil)

// sealed bounds what a setup may write: dependencies are more than what an agent writes.
func sealed() workspace.Limits {
	return workspace.Limits{Files: 500_000, FileBytes: 1 << 30, Bytes: 10 << 30, Depth: 128, Time: 10 * time.Minute}
}

// Written implements setup.Computers.
func (p *Provider) Written(ctx context.Context, id api.WorkspaceID) (setup.Result, error) {
	c, err := p.cfg.Workspaces.Changes(ctx, id, sealed())
	if err != nil {
		return setup.Result{}, err
	}
	if !c.Complete {
		c.Close()
		last := c.Refused[len(c.Refused)-1]
		return setup.Result{}, api.Errorf(api.KindExhausted, "the setup wrote too much: %s: %s", last.Path, last.Why)
	}
	out := setup.Result{Files: make([]setup.File, len(c.List)), Refused: c.Refused, Close: c.Close}
	for i, w := range c.List {
		out.Files[i] = setup.File{
			Path: w.Path, Delete: w.Delete, Link: w.Mode == workspace.Symlink, Executable: w.Mode == workspace.Executable, Size: w.Size, ModTime: w.ModTime, Open: w.Open,
		}
	}
	return out, nil
}

// Verified implements setup.Computers.
func (p *Provider) Verified(ctx context.Context, l repo.Layer) error {
	return p.cfg.Layers.Verified(ctx, layer.Digest(l))
}

// Discard implements setup.Computers.
func (p *Provider) Discard(ctx context.Context, id api.WorkspaceID) error {
	if err := p.unopened(ctx, id); err != nil {
		return err
	}
	return p.cfg.Workspaces.Remove(ctx, id, "it is no longer needed")
}
