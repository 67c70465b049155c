package plan

import (
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/human"
	"hortus.dev/internal/cli/task"
)

type workstreamsCmd struct {
	Repo string `complete:"repositories" placeholder:"NAME|PATH|URL" help:"Repository: the name of a connected one (hortus repo ls), a directory or a URL (default: all repositories)."`
}

// Run lists who changes files.
func (c *workstreamsCmd) Run(ctx app.Context, a *app.App, cl *client.Client) error {
	var r api.TaskRepository
	if c.Repo != "" {
		var err error
		if r, err = task.Address(ctx, a, c.Repo); err != nil {
			return err
		}
	}
	list, err := cl.Plans.Workstreams(ctx, r.URL)
	if err != nil {
		return err
	}
	return app.ShowList(a, list, "KIND ID STATE AGE REPOSITORY CHANGES REQUEST", func(w api.Workstream) []string {
		state := "works"
		if w.Waits {
			state = "waits"
		}
		if len(w.WaitsFor) > 0 {
			state += " for " + strings.Join(w.WaitsFor, ", ")
		}
		changes := strings.Join(w.Touches, " ")
		if changes == "**" {
			changes = "any file"
		}
		return []string{w.Kind, human.Sanitize(w.ID), human.Truncate(state, 60), human.Duration(time.Since(w.Since)), human.Truncate(w.Repository, 40),
			human.Truncate(dash(changes), 40), human.Truncate(w.Title, 50)}
	})
}
