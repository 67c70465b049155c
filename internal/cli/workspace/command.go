package workspace

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"golang.org/x/term"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/flags"
	"hortus.dev/internal/cli/human"
)

// Command is "hortus workspace".
type Command struct {
	Create createCmd `cmd:"" help:"Create an empty workspace and print its ID."`
	Ls     lsCmd     `cmd:"" help:"List workspaces."`
	Show   showCmd   `cmd:"" help:"Show a workspace, its disk usage and its user."`
	Diff   diffCmd   `cmd:"" help:"Show what was changed in a workspace."`
	Export exportCmd `cmd:"" help:"Write the files of a workspace as a tar archive."`
	Fork   forkCmd   `cmd:"" help:"Copy a workspace and print the ID of the copy."`
	Seal   sealCmd   `cmd:"" help:"Make a read-only layer of what was written; the files stay the same."`
	Quota  quotaCmd  `cmd:"" help:"Set the maximum size of what is written in a workspace."`
	Rm     rmCmd     `cmd:"" help:"Remove workspaces and all files in them."`
}

type one struct {
	ID string `arg:"" name:"workspace" complete:"workspaces" help:"Workspace: its name, its ID, a unique prefix of the ID, or last for the newest one."`
}

// find returns the ID of a workspace of an argument.
func (o one) find(ctx context.Context, cl *client.Client) (string, error) {
	if o.ID != app.Last {
		return o.ID, nil
	}
	for w, err := range cl.Workspaces.All(ctx) {
		return string(w.ID), err
	}
	return "", api.Errorf(api.KindNotFound, "there is no workspace").WithHint("create one: hortus workspace create NAME")
}

// label is how people know a workspace.
func label(w api.Workspace) string { return cmp.Or(w.Name, string(w.ID)) }

type createCmd struct {
	Name   string     `arg:"" optional:"" help:"Name: 1 to 63 lower-case letters, digits and -."`
	Quota  flags.Size `placeholder:"SIZE" help:"Maximum size of all written files, with a unit: K, M or G (default: the disk limit of each sandbox that uses it)."`
	Shared bool       `help:"Share it with the other hosts that have the same archive of layers (daemon.layer-archive). If one of them shares a workspace of this name, open that."`
}

// Run creates a workspace and prints its ID.
func (c *createCmd) Run(ctx app.Context, a *app.App, cl *client.Client) error {
	w, err := cl.Workspaces.Create(ctx, api.CreateWorkspace{Name: c.Name, QuotaBytes: int64(c.Quota), Shared: c.Shared})
	if err != nil {
		return err
	}
	if v := w.Version; v != nil && v.Number > 0 {
		a.Note("opened version %d, which host %s has stored", v.Number, human.Sanitize(v.Host))
	}
	return created(a, w, fmt.Sprintf("to use it: hortus sandbox run --workspace %s -- CMD", label(w)))
}

// created prints the ID of a new workspace.
func created(a *app.App, w api.Workspace, note string) error {
	if a.Flags.JSON {
		return a.JSON(w)
	}
	a.Note("%s", note)
	_, err := fmt.Fprintln(a.Env.Stdout, human.Sanitize(string(w.ID)))
	return err
}

type lsCmd struct{}

// Run lists workspaces.
func (lsCmd) Run(ctx app.Context, a *app.App, cl *client.Client) error {
	list, err := cl.Workspaces.List(ctx)
	if err != nil {
		return err
	}
	return app.ShowList(a, list, "ID NAME STATE QUOTA AGE SANDBOX TASK", func(w api.Workspace) []string {
		quota := "-"
		if w.QuotaBytes > 0 {
			quota = human.Size(w.QuotaBytes)
		}
		return []string{human.Sanitize(string(w.ID)), human.Sanitize(cmp.Or(w.Name, "-")), human.Sanitize(string(w.State)), quota,
			human.Duration(time.Since(w.CreatedAt)), human.Sanitize(cmp.Or(string(w.Sandbox), "-")), human.Sanitize(cmp.Or(string(w.Task), "-"))}
	})
}

type showCmd struct{ one }

// Run shows a workspace.
func (c *showCmd) Run(ctx app.Context, a *app.App, cl *client.Client) error {
	id, err := c.find(ctx, cl)
	if err != nil {
		return err
	}
	w, err := cl.Workspaces.Get(ctx, id)
	if err != nil {
		return app.Missing(err, "hortus workspace ls")
	}
	return show(a, w)
}

func show(a *app.App, w api.Workspace) error {
	return app.ShowOne(a, w, func(row func(name, value string)) {
		row("workspace", string(w.ID))
		row("name", w.Name)
		row("state", string(w.State))
		row("reason", w.Reason)
		row("sandbox", string(w.Sandbox))
		row("task", string(w.Task))
		row("account", w.Account)
		row("copy of", string(w.Parent))
		if v := w.Version; v != nil {
			row("version", version(v))
			row("not stored", v.Waiting)
			row("conflict", conflict(v))
		}
		if u := w.Usage; u != nil {
			row("disk usage", fmt.Sprintf("%s in %s", human.Size(u.Bytes), plural(u.Files, "file and directory", "files and directories")))
			row("incomplete", u.Incomplete)
		}
		if w.QuotaBytes > 0 {
			row("quota", human.Size(w.QuotaBytes))
		} else if w.State != api.WorkspaceRemoved {
			row("quota", "none; the disk limit of each sandbox applies")
		}
		for _, d := range w.Layers {
			row("layer", d)
		}
		keep := "until it is removed"
		if !w.Keep {
			keep = "until hortus gc removes it, a week after its task has ended"
		}
		if w.State != api.WorkspaceRemoved {
			row("kept", keep)
		}
		row("created", w.CreatedAt.Format(time.RFC3339))
		if !w.EndedAt.IsZero() {
			row("removed", w.EndedAt.Format(time.RFC3339))
		}
	})
}

// version says which version of a shared workspace this host has.
func version(v *api.WorkspaceVersion) string {
	text := "none; it is shared, and nothing was stored yet"
	if v.Number > 0 {
		text = fmt.Sprintf("%d, stored by host %s at %s", v.Number, v.Host, v.StoredAt.Format(time.RFC3339))
	}
	if v.Changed {
		text += "; this host has changes that are not stored"
	}
	return text
}

// conflict says where changes are that could not be stored.
func conflict(v *api.WorkspaceVersion) string {
	if v.Conflict == "" {
		return ""
	}
	return fmt.Sprintf("another host stored a version meanwhile; what was written on this host is workspace %s", v.Conflict)
}

func plural(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

type forkCmd struct {
	one
	Name string `arg:"" optional:"" help:"Name of the copy."`
}

// Run copies a workspace.
func (c *forkCmd) Run(ctx app.Context, a *app.App, cl *client.Client) error {
	id, err := c.find(ctx, cl)
	if err != nil {
		return err
	}
	w, err := cl.Workspaces.Fork(ctx, id, api.ForkWorkspace{Name: c.Name})
	if err != nil {
		return app.Missing(err, "hortus workspace ls")
	}
	return created(a, w, fmt.Sprintf("%s is a copy of %s", label(w), w.Parent))
}

type sealCmd struct{ one }

// Run seals a workspace and prints the digest of the layer.
func (c *sealCmd) Run(ctx app.Context, a *app.App, cl *client.Client) error {
	id, err := c.find(ctx, cl)
	if err != nil {
		return err
	}
	s, err := cl.Workspaces.Seal(ctx, id)
	if err != nil {
		return app.Missing(err, "hortus workspace ls")
	}
	if a.Flags.JSON {
		return a.JSON(s)
	}
	if v := s.Workspace.Version; v != nil {
		a.Note("version %d of %s is in the archive; another host can use it", v.Number, label(s.Workspace))
		return nil
	}
	if s.Layer == "" {
		a.Note("nothing was written in %s since it was last sealed; it has %s", label(s.Workspace), plural(int64(len(s.Workspace.Layers)), "layer", "layers"))
		return nil
	}
	a.Note("%s of %s are now a read-only layer; it has %s", human.Size(s.Usage.Bytes), label(s.Workspace), plural(int64(len(s.Workspace.Layers)), "layer", "layers"))
	_, err = fmt.Fprintln(a.Env.Stdout, human.Sanitize(s.Layer))
	return err
}

type quotaCmd struct {
	one
	Size flags.Size `arg:"" help:"Maximum size of all written files, with a unit: K, M or G."`
}

// Run sets the quota of a workspace.
func (c *quotaCmd) Run(ctx app.Context, a *app.App, cl *client.Client) error {
	id, err := c.find(ctx, cl)
	if err != nil {
		return err
	}
	w, err := cl.Workspaces.SetQuota(ctx, id, int64(c.Size))
	if err != nil {
		return app.Missing(err, "hortus workspace ls")
	}
	if a.Flags.JSON {
		return a.JSON(w)
	}
	a.Note("the quota of %s is %s", label(w), human.Size(w.QuotaBytes))
	if u := w.Usage; u != nil && u.Bytes > w.QuotaBytes {
		a.Note("warning: it has %s, which is more; no sandbox can use it until the quota is raised", human.Size(u.Bytes))
	}
	return nil
}

type rmCmd struct {
	IDs []string `arg:"" name:"workspace" complete:"workspaces" help:"Workspaces: names, IDs, or unique prefixes of IDs."`
}

// Run removes workspaces.
func (c *rmCmd) Run(ctx app.Context, a *app.App, cl *client.Client) error {
	return app.Each(ctx, a, c.IDs, "hortus workspace ls", cl.Workspaces.Remove, func(w api.Workspace) string {
		text := label(w) + " is removed"
		if w.Usage != nil {
			text += ", " + human.Size(w.Usage.Bytes)
		}
		return text
	})
}

type exportCmd struct {
	one
	Out string `short:"o" complete:"files" placeholder:"FILE" help:"File to create (default: stdout). An existing file is not replaced."`
	Git bool   `help:"Include directories with the name .git. Their configuration can run programs on this machine when you use git there."`
}

// Run writes a tar archive.
func (c *exportCmd) Run(ctx app.Context, a *app.App, cl *client.Client) (err error) {
	id, err := c.find(ctx, cl)
	if err != nil {
		return err
	}
	out := io.Writer(a.Env.Stdout)
	if c.Out == "" {
		if a.Flags.JSON {
			return api.Errorf(api.KindInvalid, "--json needs --out FILE: the archive goes to stdout otherwise")
		}
		if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
			return api.Errorf(api.KindInvalid, "an archive is not written to a terminal").
				WithHint("hortus workspace export %s --out FILE.tar, or: hortus workspace export %s | tar -x -C DIR", c.ID, c.ID)
		}
	} else {
		f, err := os.OpenFile(c.Out, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if errors.Is(err, fs.ErrExist) {
			return api.Errorf(api.KindExists, "%s exists already", c.Out).WithHint("remove it, or write to another file")
		}
		if err != nil {
			return api.Errorf(api.KindInvalid, "cannot create the archive: %w", err)
		}
		defer func() {
			if cerr := f.Close(); err == nil && cerr != nil {
				err = api.Errorf(api.KindInternal, "cannot write the archive: %w", cerr)
			}
			if err != nil {
				os.Remove(c.Out) // a part of an archive is of no use
			}
		}()
		out = f
	}
	w := bufio.NewWriterSize(out, 256<<10)
	done, err := cl.Workspaces.Export(ctx, id, c.Git, w)
	if err == nil {
		err = w.Flush()
	}
	if err != nil {
		return app.Missing(err, "hortus workspace ls")
	}
	if a.Flags.JSON {
		return a.JSON(done)
	}
	refused(a, done.Refused, done.RefusedCount)
	a.Note("%s, %s", plural(int64(done.Files), "file and directory", "files and directories"), human.Size(done.Bytes))
	if !done.Complete {
		return api.Errorf(api.KindExhausted, "the archive is incomplete: a limit was reached")
	}
	return nil
}
