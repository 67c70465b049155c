package sandbox

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/human"
)

type sandboxSnapshotCmd struct {
	oneSandbox
	Name       string `placeholder:"NAME" help:"Name of the template to create. An existing template with this name is replaced; running sandboxes keep the old one."`
	FilesOnly  bool   `name:"files-only" help:"Save files only; do not save memory or running processes."`
	CopyMemory bool   `name:"copy-memory" help:"Give each sandbox that starts from it memory of its own from the start; without it, they share memory until they write it."`
}

// Run saves a sandbox and prints the snapshot's id.
func (c *sandboxSnapshotCmd) Run(ctx app.Context, a *app.App) error {
	s, err := find(ctx, a, c.ID)
	if err != nil {
		return err
	}
	defer s.Close()
	done := waiting(a, "saving %s", s.ID())
	snap, err := s.Snapshot(ctx, api.CreateSnapshot{Name: c.Name, FilesOnly: c.FilesOnly, CopyMemory: c.CopyMemory})
	done()
	if err != nil {
		return err
	}
	if a.Flags.JSON {
		return a.JSON(snap)
	}
	a.Note("%s, %s%s; %s was paused for %s", KindText(snap.Kind), human.Size(snap.Bytes), sharedSize(snap), snap.Sandbox, human.Milliseconds(snap.PausedMS))
	if snap.Why != "" {
		a.Note("files only: %s", snap.Why)
	}
	_, err = fmt.Fprintln(a.Env.Stdout, human.Sanitize(string(snap.ID)))
	return err
}

// SnapshotCommand is "hortus snapshot".
type SnapshotCommand struct {
	Ls   snapshotLsCmd   `cmd:"" help:"List snapshots."`
	Show snapshotShowCmd `cmd:"" help:"Show a snapshot."`
	Rm   snapshotRmCmd   `cmd:"" help:"Remove snapshots and their data."`
}

type snapshotLsCmd struct {
	All bool `short:"a" help:"Include broken and removed snapshots."`
}

// Run lists snapshots.
func (c *snapshotLsCmd) Run(ctx app.Context, a *app.App, cl *client.Client) error {
	list, err := cl.Snapshots.List(ctx, c.All)
	if err != nil {
		return err
	}
	return app.ShowList(a, list, "ID STATE CONTENT ISOLATION SIZE AGE TEMPLATE SANDBOX REASON", func(s api.Snapshot) []string {
		why := s.Reason
		if s.Paused && why == "" {
			why = "paused to disk"
		}
		return []string{human.Sanitize(string(s.ID)), human.Sanitize(string(s.State)), human.Sanitize(string(s.Kind)), human.Sanitize(s.Image.Backend),
			human.Size(s.Bytes), human.Duration(time.Since(s.CreatedAt)), human.Sanitize(cmp.Or(s.Name, "-")), human.Sanitize(string(s.Sandbox)), human.Truncate(why, 40)}
	})
}

type snapshotShowCmd struct {
	ID string `arg:"" complete:"snapshots" help:"Snapshot ID, a unique prefix of it, or a template name."`
}

// Run shows a snapshot.
func (c *snapshotShowCmd) Run(ctx app.Context, a *app.App, cl *client.Client) error {
	s, err := cl.Snapshots.Get(ctx, c.ID)
	if err != nil {
		return app.Missing(err, "hortus snapshot ls")
	}
	return showSnapshot(a, s)
}

func showSnapshot(a *app.App, s api.Snapshot) error {
	return app.ShowOne(a, s, func(row func(name, value string)) {
		row("snapshot", string(s.ID))
		row("state", string(s.State))
		row("reason", s.Reason)
		row("template", s.Name)
		row("content", KindText(s.Kind))
		row("files only", s.Why)
		row("sandbox", string(s.Sandbox))
		if s.Paused {
			row("paused", "the sandbox resumes from it: hortus sandbox resume "+string(s.Sandbox))
		}
		row("parent", string(s.Parent))
		row("based on", s.Template)
		row("isolation", s.Image.Backend)
		row("kernel", s.Image.Kernel)
		row("processor", s.Image.CPU)
		row("guest", s.Image.Guest)
		l := s.Limits
		row("limits", fmt.Sprintf("%g processors, %s memory, %d processes, %s disk", l.CPUs, human.Size(l.MemoryBytes), l.Processes, human.Size(l.DiskBytes)))
		row("identities", strings.Join(s.Identities, ", "))
		row("size", human.Size(s.Bytes)+sharedSize(s))
		row("paused for", human.Milliseconds(s.PausedMS))
		row("created", s.CreatedAt.Format(time.RFC3339))
		if !s.EndedAt.IsZero() {
			row("ended", s.EndedAt.Format(time.RFC3339))
		}
	})
}

// sharedSize follows the size of a snapshot.
func sharedSize(s api.Snapshot) string {
	if s.SharedBytes == 0 {
		return ""
	}
	return ", and " + human.Size(s.SharedBytes) + " that it shares"
}

type snapshotRmCmd struct {
	IDs []string `arg:"" name:"id" complete:"snapshots" help:"Snapshot IDs, unique prefixes of them, or template names."`
}

// Run removes snapshots.
func (c *snapshotRmCmd) Run(ctx app.Context, a *app.App, cl *client.Client) error {
	gone := []api.Snapshot{}
	for _, id := range c.IDs {
		s, err := cl.Snapshots.Remove(ctx, id)
		if err != nil {
			return app.Missing(err, "hortus snapshot ls")
		}
		gone = append(gone, s)
		if !a.Flags.JSON {
			a.Note("%s is removed, %s", s.ID, human.Size(s.Bytes))
		}
	}
	if a.Flags.JSON {
		return a.JSON(gone)
	}
	return nil
}
