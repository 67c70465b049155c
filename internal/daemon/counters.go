package daemon

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"hortus.dev/internal/platform/bench"
	"hortus.dev/internal/sandbox"
)

// counters count for the bench what sandboxes could leave behind outside of this
// process.
func (s *System) counters(backends []sandbox.Backend) []bench.Counter {
	return []bench.Counter{
		{Name: "leftovers", Note: "run directories and control groups of sandboxes", Count: func(ctx context.Context) (float64, error) {
			total := 0
			for _, b := range backends {
				r, ok := b.(sandbox.Reclaimer)
				if !ok {
					continue
				}
				ids, err := r.Orphans(ctx)
				if err != nil {
					return 0, err
				}
				total += len(ids)
			}
			return float64(total), nil
		}},
		{Name: "database", Unit: "MB", Note: "rows and events of ended sandboxes are kept", Count: func(context.Context) (float64, error) {
			var total int64
			for _, suffix := range []string{"", "-ahead", "-wal"} {
				fi, err := os.Stat(s.dir.database() + suffix)
				if errors.Is(err, fs.ErrNotExist) {
					continue
				}
				if err != nil {
					return 0, err
				}
				total += fi.Size()
			}
			return float64(total) / 1e6, nil
		}},
	}
}
