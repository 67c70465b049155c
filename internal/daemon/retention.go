package daemon

import (
	"context"
	"strconv"

	"hortus.dev/api"
	"hortus.dev/internal/platform/config"
	"hortus.dev/internal/store"
	"hortus.dev/internal/store/retention"
	"hortus.dev/internal/task/tally"
)

// keepOf reads the bounds of what is kept from what is set.
func keepOf(conf *config.Config) (b retention.Bounds, err error) {
	if b.Rows, err = strconv.Atoi(conf.Get("daemon.keep-rows").Text); err != nil {
		return b, api.Errorf(api.KindInvalid, "daemon.keep-rows: %w", err)
	}
	if b.Age, err = config.ParseStay(conf.Get("daemon.keep-ended").Text); err == nil && b.Age == 0 {
		b.Age = 1 // Bounds take 0 for the default
	}
	return b, err
}

// taskShare is how many times the bytes of other rows tasks may have: they hold
// programs and output.
const taskShare = 16

// Prune removes the rows that a retention does not keep. Tasks stay in the statistics.
func (r rows) Prune(ctx context.Context, keep store.Retention) (store.Pruned, error) {
	done, err := r.Store.Prune(ctx, keep)
	if err != nil {
		return done, err
	}
	keep.Bytes *= taskShare
	tasks, err := r.PruneTasks(ctx, keep, tally.Fold)
	return done.Plus(tasks), err
}

// openRetention starts to remove records of what has ended.
func (s *System) openRetention() {
	k := retention.New(retention.Config{Prune: rows{s.db}.Prune, Bounds: s.cfg.Keep, Logger: s.log})
	s.onClose(k.Close)
}
