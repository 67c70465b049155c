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
	// Node names the node that a run is or was of; empty for a daemon alone.
	Node func(context.Context, api.OwnerID) string
}

var _ access.Engine = Engine{}

// Get implements access.Engine.
func (e Engine) Get(ctx context.Context, id api.TaskID) (api.Task, error) {
	row, err := e.Rows.Task(ctx, id)
	if err == nil {
		row.Node = e.Node(ctx, row.Owner)
	}
	return row, err
}

// Page implements access.Engine.
func (e Engine) Page(ctx context.Context, account string, programs bool, p api.PageRequest) ([]api.Task, string, error) {
	rows, next, err := e.Rows.TaskPage(ctx, account, programs, p)
	for i := range rows {
		rows[i].Node = e.Node(ctx, rows[i].Owner)
	}
	return rows, next, err
}

// Find implements access.Engine.
func (e Engine) Find(ctx context.Context, account, prefix string) (api.TaskID, error) {
	return e.Rows.FindTaskOf(ctx, account, prefix)
}

// Stats implements access.Engine.
func (e Engine) Stats(ctx context.Context, account string, since time.Time) (admin.TaskStats, error) {
	return tally.Rows{Store: e.Rows}.TaskStats(ctx, account, since)
}
