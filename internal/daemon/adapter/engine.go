package adapter

import (
	"context"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/internal/server/access"
	"hortus.dev/internal/store"
	"hortus.dev/internal/task"
	"hortus.dev/internal/task/tally"
)

// Engine implements access.Engine over the engine of tasks and the rows of the store.
type Engine struct {
	*task.Engine
	Rows store.Store
}

var _ access.Engine = Engine{}

// Get implements access.Engine.
func (e Engine) Get(ctx context.Context, id api.TaskID) (api.Task, error) {
	return e.Rows.Task(ctx, id)
}

// Page implements access.Engine.
func (e Engine) Page(ctx context.Context, account string, programs bool, p api.PageRequest) ([]api.Task, string, error) {
	return e.Rows.TaskPage(ctx, account, programs, p)
}

// Find implements access.Engine.
func (e Engine) Find(ctx context.Context, account, prefix string) (api.TaskID, error) {
	return e.Rows.FindTaskOf(ctx, account, prefix)
}

// Stats implements access.Engine.
func (e Engine) Stats(ctx context.Context, account string, since time.Time) (admin.TaskStats, error) {
	return tally.Rows{Store: e.Rows}.TaskStats(ctx, account, since)
}
