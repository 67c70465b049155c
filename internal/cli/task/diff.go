package task

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/human"
	"hortus.dev/internal/cli/task/view"
)

// maxPatch bounds a patch that is read whole, in bytes.
const maxPatch = 256 << 20

type taskDiffCmd struct {
	ID    string `arg:"" complete:"tasks" help:"Task ID, a unique prefix of it, or last for the newest task."`
	Stat  bool   `help:"List the changed files with added and deleted lines only."`
	Round *int   `placeholder:"N" help:"Round whose patch to print (default: the task's result)."`
}

// Run prints a patch. Into anything but a terminal it goes byte for byte.
func (c *taskDiffCmd) Run(ctx app.Context, a *app.App) error {
	cl, t, err := repoTask(ctx, a, c.ID)
	if err != nil {
		return err
	}
	round := 0
	if c.Round != nil {
		if round = *c.Round; round < 1 {
			return api.Errorf(api.KindInvalid, "--round: %d is not above 0", round)
		}
	}
	if c.Stat && round == 0 {
		if t.Repo == nil || t.Repo.Head == "" {
			return nothingYet(t)
		}
		if a.Flags.JSON {
			return a.JSON(t.Repo.Files)
		}
		return showFiles(a, t.Repo.Files)
	}
	patch, err := cl.Tasks.Diff(ctx, t.ID, round)
	if err != nil {
		return err
	}
	defer patch.Close()
	switch {
	case c.Stat:
		text, err := readPatch(patch)
		if err != nil {
			return err
		}
		files, err := person(a).Stat(ctx, text)
		if err != nil {
			return err
		}
		list := make([]api.FileChange, 0, len(files))
		for _, f := range files {
			list = append(list, api.FileChange{Path: f.Path, Added: f.Added, Deleted: f.Deleted, Binary: f.Binary})
		}
		if a.Flags.JSON {
			return a.JSON(list)
		}
		return showFiles(a, list)
	case a.Flags.JSON:
		text, err := readPatch(patch)
		if err != nil {
			return err
		}
		return a.JSON(struct {
			Task  api.TaskID `json:"task"`
			Round int        `json:"round,omitempty"`
			Patch []byte     `json:"patch"`
		}{t.ID, round, text})
	}
	if f, ok := a.Env.Stdout.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return view.ShowPatch(a.Env.Stdout, patch, a.Getenv("NO_COLOR") == "" && a.Getenv("TERM") != "dumb")
	}
	return copyOut(a.Env.Stdout, patch, "the patch")
}

// repoTask finds a task on a repository.
func repoTask(ctx context.Context, a *app.App, id string) (*client.Client, api.Task, error) {
	cl, err := a.Client(ctx)
	if err != nil {
		return nil, api.Task{}, err
	}
	t, err := find(ctx, cl, id)
	if err == nil && t.Create.Repo == nil {
		err = api.Errorf(api.KindInvalid, "task %s is not on a repository", t.ID).
			WithHint("its program is in: hortus task show %s --json, its output in: hortus task logs %s", t.ID, t.ID)
	}
	return cl, t, err
}

// nothingYet returns why a task has no result.
func nothingYet(t api.Task) error {
	if t.State != api.TaskDone {
		return api.Errorf(api.KindConflict, "task %s is still running: it has no result yet", t.ID).WithHint("hortus task show %s", t.ID)
	}
	return api.Errorf(api.KindConflict, "task %s changed nothing", t.ID).WithHint("see how it ended: hortus task show %s", t.ID)
}

// showFiles lists files, one a line.
func showFiles(a *app.App, files []api.FileChange) error {
	w := bufio.NewWriter(a.Env.Stdout)
	added, deleted := 0, 0
	for _, f := range files {
		added, deleted = added+f.Added, deleted+f.Deleted
		line := view.FileLine(f)
		if f.Status == "" {
			line = strings.TrimPrefix(line, "? ")
		}
		fmt.Fprintln(w, line)
	}
	fmt.Fprintf(w, "%s changed, +%d -%d\n", cmp.Or(human.Count(len(files), "file"), "nothing"), added, deleted)
	return w.Flush()
}

// readPatch reads a whole patch.
func readPatch(r io.Reader) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxPatch+1))
	switch {
	case err != nil:
		return nil, api.Errorf(api.KindUnavailable, "the download of the patch was interrupted: %w", err)
	case len(b) > maxPatch:
		return nil, api.Errorf(api.KindExhausted, "the patch has more than %s", human.Size(maxPatch)).WithHint("use its commits: hortus task apply ID --branch")
	}
	return b, nil
}

// copyOut copies what is kept of a task to stdout.
func copyOut(w io.Writer, r io.Reader, what string) error {
	if _, err := io.Copy(w, r); err != nil {
		return api.Errorf(api.KindUnavailable, "%s: %w", what, err)
	}
	return nil
}
