package upkeep

import (
	"context"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/internal/storage/layer"
)

// workspaces takes those of tasks that are done for long, or that no row knows, and
// those of no task that are as old, but none that is to be kept.
func (c *collection) workspaces(ctx context.Context) error {
	s := c.k.cfg.Workspaces
	if s == nil {
		return nil
	}
	ids, err := s.List()
	if err != nil {
		return err
	}
	for _, id := range ids {
		w, err := s.Get(id)
		if api.KindOf(err) == api.KindNotFound {
			continue // gone since
		}
		if err != nil {
			c.k.cfg.Logger.Error("cannot read a workspace; it is kept", "workspace", id, "error", err)
			continue
		}
		why, err := c.outlived(ctx, w)
		if err != nil {
			return err
		}
		if why == "" {
			continue
		}
		err = c.take(ctx, admin.PartWorkspaces, string(id), filepath.Join(s.Dir(), string(id)), why, func() error {
			return unlessHeld(s.Remove(ctx, id, "collected: "+why))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// outlived returns why a workspace may go; empty when it stays. One that a person made stays
// until a person removes it.
func (c *collection) outlived(ctx context.Context, w api.Workspace) (string, error) {
	if w.Keep || w.Session != "" {
		return "", nil // a session removes its own
	}
	if w.Task == "" {
		if w.CreatedAt.After(c.cutoff) {
			return "", nil
		}
		return "without a task, created " + w.CreatedAt.Format(time.DateOnly), nil
	}
	t, err := c.k.cfg.Task(ctx, w.Task)
	switch {
	case api.KindOf(err) == api.KindNotFound:
		return "its task no longer exists", nil
	case err != nil:
		return "", err
	case c.longDone(t):
		return "of a task that ended " + t.EndedAt.Format(time.DateOnly), nil
	}
	return "", nil
}

// named calls f with the layers that templates, workspaces and snapshots name. Until f returns,
// templates and snapshots name no others, and the layers that new workspaces name are leased.
func (c *collection) named(ctx context.Context, f func(named []layer.Digest) error) error {
	return c.k.cfg.Named(ctx, func(named []layer.Digest) error {
		all := append([]layer.Digest{}, named...)
		last := func(more []layer.Digest) error { return f(append(all, more...)) }
		snapshots := func(more []layer.Digest) error {
			if all = append(all, more...); c.k.cfg.Snapshots == nil {
				return last(nil)
			}
			return c.k.cfg.Snapshots.Named(ctx, last)
		}
		if c.k.cfg.Workspaces == nil {
			return snapshots(nil)
		}
		return c.k.cfg.Workspaces.Named(snapshots)
	})
}

// sizeOf is size, for workspaces by the store's own measure: guests wrote them, and
// one that cannot be measured whole must not keep the rest from being seen.
func (k *Keeper) sizeOf(ctx context.Context, counts func(unix.Stat_t) bool, part, path string) (int64, error) {
	s := k.cfg.Workspaces
	if part != admin.PartWorkspaces || s == nil {
		return sizeIf(ctx, counts, path)
	}
	ids := []api.WorkspaceID{api.WorkspaceID(filepath.Base(path))}
	if !ids[0].Valid() { // all of them
		var err error
		if ids, err = s.List(); err != nil {
			return 0, err
		}
	}
	var total int64
	for _, id := range ids {
		u, err := s.Usage(ctx, id)
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		if err != nil && api.KindOf(err) != api.KindNotFound {
			k.cfg.Logger.Warn("cannot measure a workspace completely", "workspace", id, "error", err)
		}
		total += u.Bytes
	}
	return total, nil
}
