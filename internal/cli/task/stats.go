package task

import (
	"time"

	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/flags"
	"hortus.dev/internal/cli/task/view"
)

// StatsCommand is "hortus stats".
type StatsCommand struct {
	Since flags.Span `placeholder:"7d" help:"Maximum age of the tasks to count, for example 12h, 7d or 4w (default: all tasks)."`
}

// Run prints statistics of earlier tasks.
func (c *StatsCommand) Run(ctx app.Context, a *app.App, cl *client.Client) error {
	var since time.Time
	if c.Since > 0 {
		since = time.Now().Add(-time.Duration(c.Since))
	}
	s, err := cl.Tasks.Stats(ctx, since)
	if err != nil {
		return err
	}
	if a.Flags.JSON {
		return a.JSON(s)
	}
	return view.ShowStats(a, s)
}
