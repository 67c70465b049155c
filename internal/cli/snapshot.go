package cli

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"hortus.dev/api"
)

type sandboxSnapshotCmd struct {
	oneSandbox
	Name      string `placeholder:"NAME" help:"Make it a template of that name. One that has the name is replaced for sandboxes that come later."`
	FilesOnly bool   `name:"files-only" help:"Leave memory and processes out."`
}

// Run saves a sandbox and prints the snapshot's id.
func (c *sandboxSnapshotCmd) Run(ctx runContext, a *app) error {
	s, err := a.box(ctx, c.ID)
	if err != nil {
		return err
	}
	defer s.Close()
	done := a.waiting("saving %s", s.ID())
	snap, err := s.Snapshot(ctx, api.CreateSnapshot{Name: c.Name, FilesOnly: c.FilesOnly})
	done()
	if err != nil {
		return err
	}
	if a.opt.JSON {
		return a.json(snap)
	}
	a.note("%s, %s; %s stood still for %s", kindOf(snap.Kind), showSize(snap.Bytes), snap.Sandbox, showMS(snap.PausedMS))
	if snap.Why != "" {
		a.note("files alone, because %s", snap.Why)
	}
	_, err = fmt.Fprintln(a.env.Stdout, clean(string(snap.ID)))
	return err
}

type snapshotCmd struct {
	Ls   snapshotLsCmd   `cmd:"" help:"List snapshots."`
	Show snapshotShowCmd `cmd:"" help:"Show one."`
	Rm   snapshotRmCmd   `cmd:"" help:"Remove snapshots with all that they hold."`
}

type snapshotLsCmd struct {
	All bool `short:"a" help:"Those that are broken or removed too."`
}

// Run lists snapshots.
func (c *snapshotLsCmd) Run(ctx runContext, a *app) error {
	cl, err := a.client(ctx)
	if err != nil {
		return err
	}
	list, err := cl.Snapshots(ctx, c.All)
	if err != nil {
		return err
	}
	if a.opt.JSON {
		return a.json(list)
	}
	w := tabwriter.NewWriter(a.env.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tSTATE\tHOLDS\tISOLATION\tSIZE\tAGE\tTEMPLATE\tOF\tWHY")
	for _, s := range list {
		name, why := s.Name, s.Reason
		if name == "" {
			name = "-"
		}
		if s.Paused && why == "" {
			why = "paused to disk"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", clean(string(s.ID)), clean(string(s.State)), clean(string(s.Kind)), clean(s.Image.Backend),
			showSize(s.Bytes), showDuration(time.Since(s.CreatedAt)), clean(name), clean(string(s.Sandbox)), shorten(why, 40))
	}
	return w.Flush()
}

type snapshotShowCmd struct {
	ID string `arg:"" complete:"snapshots" help:"Snapshot, a unique beginning of its id, or a template."`
}

// Run shows a snapshot.
func (c *snapshotShowCmd) Run(ctx runContext, a *app) error {
	cl, err := a.client(ctx)
	if err != nil {
		return err
	}
	s, err := cl.Snapshot(ctx, c.ID)
	if err != nil {
		return missing(err, "hortus snapshot ls")
	}
	return a.showSnapshot(s)
}

// missing says of what is not there which command lists what is.
func missing(err error, list string) error {
	if api.KindOf(err) != api.KindNotFound || api.HintOf(err) != "" {
		return err
	}
	return api.Errorf(api.KindNotFound, "%w", err).WithHint("%s lists what there is", list)
}

func (a *app) showSnapshot(s api.Snapshot) error {
	if a.opt.JSON {
		return a.json(s)
	}
	w := tabwriter.NewWriter(a.env.Stdout, 0, 4, 2, ' ', 0)
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(w, "%s\t%s\n", name, clean(value))
		}
	}
	row("snapshot", string(s.ID))
	row("state", string(s.State))
	row("reason", s.Reason)
	row("template", s.Name)
	row("holds", kindOf(s.Kind))
	row("why no more", s.Why)
	row("of", string(s.Sandbox))
	if s.Paused {
		row("paused", "this sandbox goes on from it: hortus sandbox resume "+string(s.Sandbox))
	}
	row("from", string(s.Parent))
	row("stands on", s.Template)
	row("isolation", s.Image.Backend)
	row("kernel", s.Image.Kernel)
	row("processor", s.Image.CPU)
	row("guest", s.Image.Guest)
	l := s.Limits
	fmt.Fprintf(w, "limits\t%g processors, %s memory, %d processes, %s disk\n", l.CPUs, showSize(l.MemoryBytes), l.Processes, showSize(l.DiskBytes))
	row("identities", strings.Join(s.Identities, ", "))
	row("size", showSize(s.Bytes))
	row("stood still", showMS(s.PausedMS))
	row("created", s.CreatedAt.Format(time.RFC3339))
	if !s.EndedAt.IsZero() {
		row("ended", s.EndedAt.Format(time.RFC3339))
	}
	return w.Flush()
}

type snapshotRmCmd struct {
	IDs []string `arg:"" name:"id" complete:"snapshots" help:"Snapshots, unique beginnings of their ids, or templates."`
}

// Run removes snapshots.
func (c *snapshotRmCmd) Run(ctx runContext, a *app) error {
	cl, err := a.client(ctx)
	if err != nil {
		return err
	}
	gone := []api.Snapshot{}
	for _, id := range c.IDs {
		s, err := cl.RemoveSnapshot(ctx, id)
		if err != nil {
			return missing(err, "hortus snapshot ls")
		}
		gone = append(gone, s)
		if !a.opt.JSON {
			a.note("%s is removed, %s", s.ID, showSize(s.Bytes))
		}
	}
	if a.opt.JSON {
		return a.json(gone)
	}
	return nil
}
