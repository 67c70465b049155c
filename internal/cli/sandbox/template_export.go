package sandbox

import (
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/term"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/human"
	"hortus.dev/internal/cli/terminal"
)

type templateExportCmd struct {
	Name  string `arg:"" complete:"templates" help:"Template name, the ID of a snapshot, or the ID or reference of an image."`
	File  string `arg:"" complete:"files" help:"File to create; - is stdout. It has the form of an OCI layout and of docker save."`
	Force bool   `help:"Replace the file if it exists."`
}

// Help returns what the first line of help does not.
func (templateExportCmd) Help() string {
	return `Examples:

    hortus template export py py.tar
    hortus template export py - | docker load`
}

// Run writes the archive of a template. Ctrl-C ends the export and leaves no file.
func (c *templateExportCmd) Run(ctx app.Context, a *app.App) error {
	stdout := c.File == "-"
	switch {
	case stdout && a.Given("force"):
		return api.Errorf(api.KindInvalid, "--force is for a file, and - is stdout")
	case stdout && a.Flags.JSON:
		return api.Errorf(api.KindInvalid, "--json needs a file: the archive goes to stdout otherwise")
	case stdout:
		if f, ok := a.Env.Stdout.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
			return api.Errorf(api.KindInvalid, "an archive is not written to a terminal").
				WithHint("hortus template export %.200s FILE.tar, or: hortus template export %.200s - | docker load", c.Name, c.Name)
		}
	case c.File == "":
		return api.Errorf(api.KindInvalid, "the name of the file is empty").WithHint("- is stdout")
	}
	stop := terminal.CatchInterrupts(a)
	defer stop.Close()
	cl, err := a.Client(ctx)
	if err != nil {
		return err
	}
	work, done := stop.Cancel(ctx, nil)
	defer done()
	began := time.Now()
	var n int64
	if stdout {
		n, err = exportTo(work, cl, c.Name, a.Env.Stdout)
	} else {
		n, err = c.toFile(work, cl)
	}
	switch {
	case api.KindOf(err) == api.KindCanceled:
		return api.Errorf(api.KindCanceled, "template %.200s was not exported: cancelled", c.Name)
	case !stdout && (errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)):
		return api.Errorf(api.KindExhausted, "no space left on the disk of %s: %w", filepath.Dir(c.File), err).WithHint("free space there, or write to another disk")
	case err != nil:
		return err
	}
	if a.Flags.JSON {
		return a.JSON(exportedTemplate{c.Name, c.File, n})
	}
	a.Note("template %s is exported after %s: %s", c.Name, human.Duration(time.Since(began)), human.Size(n))
	return nil
}

// exportedTemplate is what --json prints.
type exportedTemplate struct {
	Template string `json:"template"`
	File     string `json:"file"`
	Bytes    int64  `json:"bytes"`
}

// toFile writes an archive under a temporary name in the file's directory, and renames it when it
// is complete.
func (c *templateExportCmd) toFile(ctx context.Context, cl *client.Client) (n int64, err error) {
	if !c.Force {
		if _, err := os.Lstat(c.File); err == nil {
			return 0, fileExists(c.File)
		}
	}
	f, err := os.CreateTemp(filepath.Dir(c.File), ".hortus-export-*") // with mode 0600
	if err != nil {
		return 0, notWritten(err)
	}
	defer os.Remove(f.Name()) // a no-op once renamed
	defer f.Close()
	if n, err = exportTo(ctx, cl, c.Name, f); err != nil {
		return n, err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return n, notWritten(err)
	}
	if c.Force {
		err = os.Rename(f.Name(), c.File)
	} else {
		err = renameNew(f.Name(), c.File)
	}
	if errors.Is(err, fs.ErrExist) {
		return n, fileExists(c.File)
	}
	return n, notWritten(err)
}

// renameNew renames a file to a name that does not exist yet.
func renameNew(old, name string) error {
	err := os.Link(old, name)
	if err == nil || errors.Is(err, fs.ErrExist) {
		return err
	}
	// The file system has no hard links. The name is reserved, and then replaced.
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	f.Close()
	if err = os.Rename(old, name); err != nil {
		os.Remove(name)
	}
	return err
}

func fileExists(name string) error {
	return api.Errorf(api.KindExists, "%s exists already", name).WithHint("write to another file, or give --force to replace it")
}

func notWritten(err error) error {
	if err == nil {
		return nil
	}
	return api.Errorf(api.KindInvalid, "cannot write the archive: %w", err)
}

// exportTo writes an archive and returns its size.
func exportTo(ctx context.Context, cl *client.Client, name string, to io.Writer) (int64, error) {
	count := &countedWriter{w: to}
	w := bufio.NewWriterSize(count, 256<<10)
	if err := cl.Templates.Export(ctx, name, w); err != nil {
		return 0, err
	}
	err := w.Flush()
	return count.n, err
}

type countedWriter struct {
	w io.Writer
	n int64
}

func (c *countedWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}
