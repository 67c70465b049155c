package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"hortus.dev/api"
	"hortus.dev/client"
)

// maxPatch bounds a patch that is read whole, in bytes.
const maxPatch = 256 << 20

type taskDiffCmd struct {
	ID    string `arg:"" complete:"tasks" help:"Task: a unique beginning of its id, or last for the newest."`
	Stat  bool   `help:"Only the files, with the lines that came and went."`
	Round *int   `placeholder:"N" help:"What this round came to; left out, the task's result."`
}

// Run prints a patch. Into anything but a terminal it goes byte for byte.
func (c *taskDiffCmd) Run(ctx runContext, a *app) error {
	cl, t, err := a.repoTask(ctx, c.ID)
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
		if a.opt.JSON {
			return a.json(t.Repo.Files)
		}
		return a.showFiles(t.Repo.Files)
	}
	patch, err := cl.TaskDiff(ctx, t.ID, round)
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
		files, err := a.person().Stat(ctx, text)
		if err != nil {
			return err
		}
		list := make([]api.FileChange, 0, len(files))
		for _, f := range files {
			list = append(list, api.FileChange{Path: f.Path, Added: f.Added, Deleted: f.Deleted, Binary: f.Binary})
		}
		if a.opt.JSON {
			return a.json(list)
		}
		return a.showFiles(list)
	case a.opt.JSON:
		text, err := readPatch(patch)
		if err != nil {
			return err
		}
		return a.json(struct {
			Task  api.TaskID `json:"task"`
			Round int        `json:"round,omitempty"`
			Patch []byte     `json:"patch"`
		}{t.ID, round, text})
	}
	if f, ok := a.env.Stdout.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return showPatch(a.env.Stdout, patch, a.getenv("NO_COLOR") == "" && a.getenv("TERM") != "dumb")
	}
	return copyOut(a.env.Stdout, patch, "the patch")
}

// repoTask finds a task on a repository.
func (a *app) repoTask(ctx context.Context, id string) (*client.Client, api.Task, error) {
	cl, err := a.client(ctx)
	if err != nil {
		return nil, api.Task{}, err
	}
	t, err := taskOf(ctx, cl, id)
	if err == nil && t.Create.Repo == nil {
		err = api.Errorf(api.KindInvalid, "task %s works on no repository", t.ID).
			WithHint("its program is in: hortus task show %s --json, its output in: hortus task logs %s", t.ID, t.ID)
	}
	return cl, t, err
}

// nothingYet says why a task has no result.
func nothingYet(t api.Task) error {
	if t.State != api.TaskDone {
		return api.Errorf(api.KindConflict, "task %s is still at work: it has no result yet", t.ID).WithHint("hortus task show %s", t.ID)
	}
	return api.Errorf(api.KindConflict, "task %s changed nothing", t.ID).WithHint("hortus task show %s tells how it ended", t.ID)
}

// showFiles lists files, one a line.
func (a *app) showFiles(files []api.FileChange) error {
	w := bufio.NewWriter(a.env.Stdout)
	added, deleted := 0, 0
	for _, f := range files {
		added, deleted = added+f.Added, deleted+f.Deleted
		line := fileLine(f)
		if f.Status == "" {
			line = strings.TrimPrefix(line, "? ")
		}
		fmt.Fprintln(w, line)
	}
	fmt.Fprintf(w, "%s changed, +%d -%d\n", orNone(count(len(files), "file"), "nothing"), added, deleted)
	return w.Flush()
}

// readPatch reads a whole patch.
func readPatch(r io.Reader) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxPatch+1))
	switch {
	case err != nil:
		return nil, api.Errorf(api.KindUnavailable, "the patch was cut: %w", err)
	case len(b) > maxPatch:
		return nil, api.Errorf(api.KindExhausted, "the patch has more than %s", showSize(maxPatch)).WithHint("take its commits: hortus task apply ID --branch")
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

// maxPatchLine bounds what is shown of one line on a terminal, in runes.
const maxPatchLine = 4000

// showPatch shows a patch on a terminal: in colours, and harmless, since its text is
// a stranger's.
func showPatch(w io.Writer, r io.Reader, colours bool) error {
	out := bufio.NewWriter(w)
	in := bufio.NewReaderSize(r, 64<<10)
	for {
		line, err := in.ReadSlice('\n')
		long := errors.Is(err, bufio.ErrBufferFull)
		text := strings.TrimSuffix(string(line), "\n")
		for long {
			_, err = in.ReadSlice('\n')
			long = errors.Is(err, bufio.ErrBufferFull)
		}
		if text != "" || err == nil {
			shown := harmless(text, maxPatchLine, "\t")
			if c := patchColour(text); colours && c != "" {
				shown = "\x1b[" + c + "m" + shown + "\x1b[0m"
			}
			fmt.Fprintln(out, shown)
		}
		switch {
		case errors.Is(err, io.EOF):
			return out.Flush()
		case err != nil:
			_ = out.Flush()
			return api.Errorf(api.KindUnavailable, "the patch was cut: %w", err)
		}
	}
}

// patchColour is the colour of a line of a patch.
func patchColour(line string) string {
	for _, c := range []struct{ begins, colour string }{
		{"diff ", "1"}, {"index ", "1"}, {"--- ", "1"}, {"+++ ", "1"}, {"new file", "1"}, {"deleted file", "1"}, {"rename ", "1"},
		{"@@", "36"}, {"+", green}, {"-", red},
	} {
		if strings.HasPrefix(line, c.begins) {
			return c.colour
		}
	}
	return ""
}
