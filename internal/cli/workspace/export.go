package workspace

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"

	"golang.org/x/term"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/human"
)

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
