package sandbox

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/flags"
	"hortus.dev/internal/cli/human"
)

type sandboxSnapshotCmd struct {
	oneSandbox
	Name       string `placeholder:"NAME" help:"Name of the template to create, NAME or NAME:TAG. An existing template with this name is replaced; running sandboxes keep the old one."`
	FilesOnly  bool   `name:"files-only" help:"Save files only; do not save memory or running processes."`
	OnRestore  string `name:"on-restore" placeholder:"CMD" help:"Shell command that runs in each sandbox that starts from the snapshot before the sandbox is handed out, for at most 1 minute (default: that of the template that the sandbox started from)."`
	CopyMemory bool   `name:"copy-memory" help:"Give each sandbox that starts from it memory of its own from the start; without it, they share memory until they write it."`
}

// Run saves a sandbox and prints the snapshot's id.
func (c *sandboxSnapshotCmd) Run(ctx app.Context, a *app.App) error {
	s, err := find(ctx, a, c.ID)
	if err != nil {
		return err
	}
	defer s.Close()
	_, done := waiting(ctx, a, "saving %s", s.ID())
	snap, err := s.Snapshot(ctx, api.CreateSnapshot{Name: c.Name, FilesOnly: c.FilesOnly, CopyMemory: c.CopyMemory, OnRestore: c.OnRestore})
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
	noteListeners(a, snap)
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
		switch {
		case why != "":
		case s.Paused:
			why = "paused to disk"
		case s.Name == "" && s.BuildKey != "":
			why = "cache of template build"
		}
		return []string{human.Sanitize(string(s.ID)), human.Sanitize(string(s.State)), human.Sanitize(string(s.Kind)), human.Sanitize(s.Image.Backend),
			human.Size(s.Bytes), human.Duration(time.Since(s.CreatedAt)), human.Sanitize(cmp.Or(strings.Join(s.Names(), ", "), "-")), human.Sanitize(string(s.Sandbox)), human.Truncate(why, 40)}
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
		row("template", strings.Join(s.Names(), ", "))
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
		if s.Archived != "" {
			row("archived", "other daemons with the same database can start from it")
		}
		row("on restore", s.OnRestore)
		for _, l := range s.Listeners {
			row("warning", shared(l))
		}
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
	return app.Each(ctx, a, c.IDs, "hortus snapshot ls", cl.Snapshots.Remove, func(s api.Snapshot) string {
		return fmt.Sprintf("%s is removed, %s", s.ID, human.Size(s.Bytes))
	})
}

type sandboxForkCmd struct {
	oneSandbox
	Count      *int           `short:"n" placeholder:"N" help:"Number of children (1 to 100, default 1)."`
	TTL        flags.Duration `name:"ttl" placeholder:"5m" help:"Time to live of each child (default: what is left of the parent's)."`
	Env        []string       `short:"e" sep:"none" placeholder:"NAME=VALUE" help:"Environment variable for new commands in the children, in addition to the parent's. Repeatable."`
	Label      []string       `short:"l" sep:"none" placeholder:"NAME=VALUE" help:"Label of the children. Repeatable."`
	Secret     []string       `sep:"none" complete:"secrets" placeholder:"NAME" help:"Secret of the parent that the children may use too (default: none). Repeatable."`
	FilesOnly  bool           `name:"files-only" help:"Fork files only; do not copy memory or running processes."`
	OnRestore  string         `name:"on-restore" placeholder:"CMD" help:"Shell command that runs in each child before the child is handed out, for at most 1 minute (default: that of the template that the parent started from)."`
	CopyMemory bool           `name:"copy-memory" help:"Give each child memory of its own from the start; without it, children share memory until they write it."`
}

// Run forks a sandbox and prints the children. One that failed makes it fail.
func (c *sandboxForkCmd) Run(ctx app.Context, a *app.App) error {
	req := api.ForkSandbox{Count: 1, TTLMS: c.TTL.Milliseconds(), FilesOnly: c.FilesOnly, CopyMemory: c.CopyMemory, OnRestore: c.OnRestore, Secrets: c.Secret}
	if c.Count != nil {
		if req.Count = *c.Count; req.Count < 1 || req.Count > api.MaxForks {
			return api.Errorf(api.KindInvalid, "--count: %d is not between 1 and %d", req.Count, api.MaxForks)
		}
	}
	err := c.TTL.CheckTTL()
	if err == nil {
		req.Env, err = flags.Assignments("--env", c.Env)
	}
	if err == nil {
		req.Labels, err = flags.Assignments("--label", c.Label)
	}
	if err != nil {
		return err
	}
	s, err := find(ctx, a, c.ID)
	if err != nil {
		return err
	}
	defer s.Close()
	asked, done := waiting(ctx, a, "forking %s", s.ID())
	out, err := s.Fork(asked, req)
	done()
	if err != nil {
		return err
	}
	return showFork(a, req, out)
}

// showFork prints what came of a fork: the children on stdout, what there is to say
// of them on stderr.
func showFork(a *app.App, req api.ForkSandbox, out api.ForkResult) error {
	made := 0
	for _, child := range out.Children {
		if child.Sandbox != nil {
			made++
		}
	}
	if a.Flags.JSON {
		if err := a.JSON(out); err != nil {
			return err
		}
	} else {
		for _, child := range out.Children {
			if child.Sandbox == nil {
				continue
			}
			if _, err := fmt.Fprintln(a.Env.Stdout, human.Sanitize(string(child.Sandbox.ID))); err != nil {
				return err
			}
		}
		a.Note("%d of %d children with %s; %s was paused for %s", made, req.Count, KindText(out.Kind), out.Parent, human.Milliseconds(out.PausedMS))
		for _, child := range out.Children {
			if s := child.Sandbox; s != nil && s.Workspace != "" {
				a.Note("%s has workspace %s, which stays until: hortus workspace rm %s", s.ID, s.Workspace, s.Workspace)
			}
		}
		if out.Why != "" {
			a.Note("files only: %s", out.Why)
		}
		if out.MemoryWhy != "" {
			a.Note("memory was copied: %s", out.MemoryWhy)
		}
	}
	for n, child := range out.Children {
		if child.Sandbox != nil {
			continue
		}
		e := child.Error
		if e == nil {
			e = api.Errorf(api.KindInternal, "unknown reason")
		}
		fmt.Fprintf(a.Env.Stderr, "hortus: child %d of %d was not made: %s\n", n+1, req.Count, human.Sanitize(e.Error()))
		if e.Hint != "" {
			fmt.Fprintf(a.Env.Stderr, "  next: %s\n", human.Sanitize(e.Hint))
		}
	}
	if made < req.Count {
		return app.ExitCode(1)
	}
	return nil
}

// KindText says in words what a snapshot or a child has of its origin.
func KindText(k api.SnapshotKind) string {
	switch k {
	case api.SnapshotMemory:
		return "memory and files"
	case api.SnapshotFiles:
		return "files alone"
	}
	return human.Sanitize(string(k))
}
