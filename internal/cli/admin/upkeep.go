package admin

import (
	"fmt"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/flags"
	"hortus.dev/internal/cli/human"
)

// DiskUsageCommand is "hortus df".
type DiskUsageCommand struct{}

// Run shows what the data directory holds.
func (*DiskUsageCommand) Run(ctx app.Context, a *app.App, c *client.Client) error {
	u, err := c.DiskUsage(ctx)
	if err != nil {
		return err
	}
	if a.Flags.JSON {
		return a.JSON(u)
	}
	w := a.Table()
	fmt.Fprintln(w, "PART\tCOUNT\tSIZE\tMAXIMUM\tRECLAIMABLE")
	for _, p := range u.Parts {
		maximum := "-"
		if p.LimitBytes > 0 {
			maximum = human.Size(p.LimitBytes)
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\n", human.Sanitize(p.Name), p.Count, human.Size(p.Bytes), maximum, human.Size(p.ReclaimableBytes))
	}
	fmt.Fprintf(w, "all\t\t%s\t\t%s\n", human.Size(u.Bytes), human.Size(u.ReclaimableBytes))
	if err := w.Flush(); err != nil {
		return err
	}
	a.Note("%s; %s of %s free on its disk", u.DataDir, human.Size(u.FreeBytes), human.Size(u.TotalBytes))
	return nil
}

// CollectCommand is "hortus gc".
type CollectCommand struct {
	DryRun    bool      `name:"dry-run" short:"n" help:"Show what would be removed; remove nothing."`
	OlderThan flags.Age `name:"older-than" default:"7d" placeholder:"7d" help:"Minimum age of the task output, unused layers, packages, logs and database copies to remove; 0 removes all of them."`
}

// Run collects. What could not be removed makes it fail.
func (g *CollectCommand) Run(ctx app.Context, a *app.App, c *client.Client) error {
	ms := time.Duration(g.OlderThan).Milliseconds()
	out, err := c.Collect(ctx, admin.CollectRequest{DryRun: g.DryRun, OlderThanMS: &ms})
	if err != nil {
		return err
	}
	var failed *api.Error
	if a.Flags.JSON {
		if err := a.JSON(out); err != nil {
			return err
		}
	}
	w := a.Table()
	for _, it := range out.Items {
		if it.Error != nil && failed == nil {
			failed = it.Error
		}
		if !a.Flags.JSON {
			why := it.Why
			if it.Error != nil {
				why = "still there: " + it.Error.Error()
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", human.Sanitize(it.Part), human.Truncate(it.Name, 40), human.Size(it.Bytes), human.Sanitize(why))
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	done := "removed"
	if out.DryRun {
		done = "would remove"
	}
	a.Note("%s %d things, %s", done, len(out.Items), human.Size(out.Bytes))
	if failed != nil {
		return app.ExitCode(failed.Kind.ExitCode())
	}
	return nil
}
