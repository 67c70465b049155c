package daemon

import (
	"context"

	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/workspace"
)

// openWorkspaces opens the durable files of the data directory.
func (s *System) openWorkspaces(ctx context.Context, layers *layer.Store) (err error) {
	s.workspaces, err = workspace.Open(ctx, workspace.Config{
		Dir: s.dir.path("workspaces"), Layers: layers, Rows: rows{s.db}, Owner: s.owner.ID, Logger: s.log,
	})
	return err
}
