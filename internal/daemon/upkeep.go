package daemon

import (
	"context"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox/manager"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/upkeep"
)

// newKeeper makes the keeper of the data directory.
func (s *System) newKeeper(layers *layer.Store, named *templates) *upkeep.Keeper {
	return upkeep.New(upkeep.Config{
		Dir: string(s.dir), Layers: layers, Named: named.Named, Task: s.db.Task, Workspaces: s.workspaces, Snapshots: s.snapshots, Logger: s.log,
		Repositories: s.repositories, Busy: func() bool { return s.tasks.Running() > 0 },
		Orphans: func(ctx context.Context) ([]upkeep.Orphan, error) {
			all, err := s.sandboxes.Orphans(ctx)
			if err != nil {
				return nil, err
			}
			out := make([]upkeep.Orphan, len(all))
			for i, o := range all {
				out[i] = upkeep.Orphan{Backend: o.Backend, ID: o.ID, Path: s.dir.path("run/" + o.Backend + "/" + string(o.ID))}
			}
			return out, nil
		},
		Reclaim: func(ctx context.Context, o upkeep.Orphan) error {
			return s.sandboxes.Reclaim(ctx, manager.Orphan{Backend: o.Backend, ID: o.ID})
		},
	})
}

// Usage implements the door's Upkeep.
func (s *System) Usage(ctx context.Context) (api.DiskUsage, error) { return s.keeper.Usage(ctx) }

// Collect implements the door's Upkeep.
func (s *System) Collect(ctx context.Context, req api.CollectRequest) (api.Collected, error) {
	return s.keeper.Collect(ctx, req)
}
