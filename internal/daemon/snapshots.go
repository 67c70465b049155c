package daemon

import (
	"context"

	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/snapshot"
)

// openSnapshots opens the saved states of the data directory.
func (s *System) openSnapshots(layers *layer.Store) (err error) {
	s.snapshots, err = snapshot.Open(snapshot.Config{
		Dir: s.dir.path("snapshots"), Layers: layers, Rows: rows{s.db}, Owner: s.owner.ID, Logger: s.log,
	})
	if err == nil {
		s.onClose(func(context.Context) error { return s.snapshots.Close() })
	}
	return err
}
