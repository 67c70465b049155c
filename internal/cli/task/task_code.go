package task

import (
	"fmt"
	"io"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/human"
	"hortus.dev/internal/cli/task/view"
)

type taskCodeCmd struct {
	ID      string `arg:"" complete:"tasks" help:"Task ID, a unique prefix of it, or last for the newest task."`
	File    string `arg:"" optional:"" placeholder:"FILE" help:"File to print (default: all files)."`
	Attempt *int   `short:"n" placeholder:"N" help:"Number of the attempt (default: the last one)."`
	Out     string `name:"out" complete:"dirs" placeholder:"DIR" help:"Directory to write the program's files and its output files to."`
}

// Help returns what the first line of help does not.
func (taskCodeCmd) Help() string {
	return `A program with one file is printed unchanged: "hortus task code ID > main.py". With several files, each is printed after its name.`
}

// Run prints a program.
func (c *taskCodeCmd) Run(ctx app.Context, a *app.App, cl *client.Client) error {
	t, err := find(ctx, cl, c.ID)
	if err != nil {
		return err
	}
	if t.Create.Repo != nil {
		return api.Errorf(api.KindInvalid, "task %s is on a repository", t.ID).WithHint("see its patch: hortus task diff %s", t.ID.Short())
	}
	n, err := attemptOf(t, c.Attempt)
	if err != nil {
		return err
	}
	at := attempt(t, n)
	files := at.Artifact.Files
	if c.File != "" {
		files = nil
		for _, f := range at.Artifact.Files {
			if f.Path == c.File {
				files = []api.File{f}
			}
		}
		if files == nil {
			return api.Errorf(api.KindNotFound, "attempt %d of task %s has no file %q", n, t.ID, c.File).
				WithHint("it has %s", human.List(view.ProgramFiles(at.Artifact)))
		}
		at.Artifact.Files = files
	}
	if c.Out != "" {
		out, err := openOut(c.Out)
		if err != nil {
			return err
		}
		defer out.Close()
		if err := out.write(api.Task{Attempts: []api.Attempt{at}}); err != nil {
			return err
		}
		a.Note("%s written to %s", human.List(view.ProgramFiles(at.Artifact)), c.Out)
		return nil
	}
	if a.Flags.JSON {
		return a.JSON(at.Artifact)
	}
	return printFiles(a.Env.Stdout, files)
}

// printFiles writes one file as it is, and several with their names.
func printFiles(w io.Writer, files []api.File) error {
	for i, f := range files {
		if len(files) > 1 {
			if i > 0 {
				fmt.Fprintln(w)
			}
			fmt.Fprintf(w, "==> %s <==\n", human.Sanitize(f.Path))
		}
		if _, err := io.WriteString(w, f.Content); err != nil {
			return api.Errorf(api.KindUnavailable, "print the program: %w", err)
		}
	}
	return nil
}

// attempt returns an attempt that is there.
func attempt(t api.Task, n int) api.Attempt {
	for _, at := range t.Attempts {
		if at.N == n {
			return at
		}
	}
	return api.Attempt{}
}
