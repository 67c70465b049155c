package upkeep

import (
	"context"
	"time"

	"hortus.dev/api/admin"
)

// repositories takes the copies that no task has used for long and that nobody connected. The
// results of tasks are in them: those that are as old go too. While a task runs none is taken.
func (c *collection) repositories(ctx context.Context) error {
	cache := c.k.cfg.Repositories
	if cache == nil || c.k.cfg.Busy != nil && c.k.cfg.Busy() {
		return nil
	}
	all, err := cache.List()
	if err != nil {
		return err
	}
	var kept map[string]bool
	if c.k.cfg.Connected != nil {
		if kept, err = c.k.cfg.Connected(ctx); err != nil {
			return err
		}
	}
	for _, r := range all {
		if kept[r.Name] || r.Used.After(c.cutoff) {
			continue
		}
		err := c.take(ctx, admin.PartRepositories, r.Name, r.Path, "last used "+r.Used.Format(time.DateOnly), func() error {
			return unlessHeld(cache.Remove(ctx, r.Name))
		})
		if err != nil {
			return err
		}
	}
	return nil
}
