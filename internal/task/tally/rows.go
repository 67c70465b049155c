package tally

import (
	"context"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/internal/store"
)

// Rows counts the tasks of a store, and keeps the sums of those that it removes.
type Rows struct{ store.Store }

// taskShare is how many times the bytes of other Rows tasks may have: they hold
// programs and output.
const taskShare = 16

// Prune removes the rows that a retention does not keep. Removed tasks still count in the
// statistics.
func (r Rows) Prune(ctx context.Context, keep store.Retention) (store.Pruned, error) {
	done, err := r.Store.Prune(ctx, keep)
	if err != nil {
		return done, err
	}
	keep.Bytes *= taskShare
	tasks, err := r.PruneTasks(ctx, keep, Fold)
	return done.Plus(tasks), err
}

// TaskStats implements the statistics of access.Engine: those of the rows and those of
// removed tasks, since a time.
func (r Rows) TaskStats(ctx context.Context, account string, since time.Time) (admin.TaskStats, error) {
	y := New(since)
	err := r.WalkTasks(ctx, account, since, func(t api.Task) error {
		y.Add(t)
		return nil
	})
	if err == nil {
		err = r.WalkTallies(ctx, account, since, y.AddSums)
	}
	return y.Stats(), err
}
