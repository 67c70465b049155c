package sqlite

import (
	"context"
	"math"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

// walkPage is the number of tasks that WalkTasks reads at once: each may have megabytes.
const walkPage = 20

// WalkTasks implements store.Store.
func (t taskTable) WalkTasks(ctx context.Context, f store.TaskFilter, use func(api.Task) error) error {
	if f.Limit < 0 {
		return t.badLimit(f.Limit)
	}
	created, seq := int64(math.MaxInt64), int64(math.MaxInt64)
	for left := f.Limit; ; {
		n := walkPage
		if f.Limit > 0 {
			n = min(n, left)
		}
		if n == 0 {
			return nil
		}
		w := taskWhere(f)
		w.conds = append(w.conds, "(created_at, seq) < (?, ?)")
		w.args = append(w.args, created, seq)
		q, args := w.selectSQL(taskColumns+", seq", "task", "created_at DESC, seq DESC", n)
		page, err := list(ctx, t.db.read, "tasks", func(r scanner) (api.Task, error) { return t.scan(extraColumn{r, &seq}) }, q, args...)
		if err != nil {
			return err
		}
		for _, task := range page {
			if f.WithAttempts {
				if task.Attempts, err = attempts(ctx, t.db.read, task.ID); err != nil {
					return err
				}
			}
			if err := use(task); err != nil {
				return err
			}
			created = task.CreatedAt.UnixMicro()
		}
		if len(page) < n {
			return nil
		}
		left -= len(page)
	}
}

// extraColumn scans one more column than the caller asks for.
type extraColumn struct {
	scanner
	last any
}

// Scan implements scanner.
func (a extraColumn) Scan(to ...any) error { return a.scanner.Scan(append(to, a.last)...) }
