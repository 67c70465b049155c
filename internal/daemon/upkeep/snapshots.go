package upkeep

import (
	"context"
	"path/filepath"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/admin"
)

// snapshots takes the files of those that are broken or should be gone, and plain
// ones that are old: no template and no paused sandbox hangs on them. Removing one
// that a sandbox starts from now is put off until it has.
func (c *collection) snapshots(ctx context.Context) error {
	s := c.k.cfg.Snapshots
	if s == nil {
		return nil
	}
	ids, err := s.List()
	if err != nil {
		return err
	}
	for _, id := range ids {
		r, err := s.Snapshot(ctx, id)
		why, forget := "", false
		switch {
		case api.KindOf(err) == api.KindNotFound:
			why, forget = "the snapshot no longer exists", true
		case err != nil:
			return err
		case r.State.Final():
			why = "left by a snapshot that is " + string(r.State)
		case r.State == api.SnapshotReady && r.Name == "" && !r.Paused && !r.CreatedAt.After(c.cutoff):
			why = "not used by any template or paused sandbox, created " + r.CreatedAt.Format(time.DateOnly)
		default:
			continue
		}
		err = c.take(ctx, admin.PartSnapshots, string(id), filepath.Join(s.Dir(), string(id)), why, func() error {
			if forget {
				return s.Forget(id)
			}
			_, err := s.Remove(ctx, id, "collected: "+why)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
