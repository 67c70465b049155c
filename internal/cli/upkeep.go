package cli

import (
	"fmt"
	"text/tabwriter"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/platform/config"
)

type dfCmd struct{}

// Run shows what the data directory holds.
func (*dfCmd) Run(ctx runContext, a *app) error {
	c, err := a.client(ctx)
	if err != nil {
		return err
	}
	u, err := c.DiskUsage(ctx)
	if err != nil {
		return err
	}
	if a.opt.JSON {
		return a.json(u)
	}
	w := tabwriter.NewWriter(a.env.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "PART\tCOUNT\tSIZE\tRECLAIMABLE")
	for _, p := range u.Parts {
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\n", clean(p.Name), p.Count, showSize(p.Bytes), showSize(p.ReclaimableBytes))
	}
	fmt.Fprintf(w, "all\t\t%s\t%s\n", showSize(u.Bytes), showSize(u.ReclaimableBytes))
	if err := w.Flush(); err != nil {
		return err
	}
	a.note("%s; %s of %s free on its disk", u.DataDir, showSize(u.FreeBytes), showSize(u.TotalBytes))
	return nil
}

// age is a duration that may be 0.
type age time.Duration

// UnmarshalText reads a duration or 0.
func (d *age) UnmarshalText(text []byte) error {
	if s := string(text); s == "0" || s == "0s" || s == "0d" {
		*d = 0
		return nil
	}
	v, err := config.ParseDuration(string(text))
	*d = age(v)
	return err
}

type gcCmd struct {
	DryRun    bool `name:"dry-run" short:"n" help:"Show what would go, and remove nothing."`
	OlderThan age  `name:"older-than" default:"7d" placeholder:"7d" help:"Age of finished tasks' output, old logs and old database copies; 0 for all."`
}

// Run collects. What could not be removed makes it fail.
func (g *gcCmd) Run(ctx runContext, a *app) error {
	c, err := a.client(ctx)
	if err != nil {
		return err
	}
	ms := time.Duration(g.OlderThan).Milliseconds()
	out, err := c.Collect(ctx, api.CollectRequest{DryRun: g.DryRun, OlderThanMS: &ms})
	if err != nil {
		return err
	}
	var failed *api.Error
	if a.opt.JSON {
		if err := a.json(out); err != nil {
			return err
		}
	}
	w := tabwriter.NewWriter(a.env.Stdout, 0, 4, 2, ' ', 0)
	for _, it := range out.Items {
		if it.Error != nil && failed == nil {
			failed = it.Error
		}
		if !a.opt.JSON {
			why := it.Why
			if it.Error != nil {
				why = "still there: " + it.Error.Error()
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", clean(it.Part), shorten(it.Name, 40), showSize(it.Bytes), clean(why))
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	done := "removed"
	if out.DryRun {
		done = "would remove"
	}
	a.note("%s %d things, %s", done, len(out.Items), showSize(out.Bytes))
	if failed != nil {
		return exitCode(failed.Kind.ExitCode())
	}
	return nil
}
