package cli

import (
	"fmt"
	"io"
	"strings"

	"hortus.dev/api"
)

type taskCodeCmd struct {
	ID      string `arg:"" complete:"tasks" help:"Task: a unique beginning of its id, or last for the newest."`
	File    string `arg:"" optional:"" placeholder:"FILE" help:"Which of its files; all of them when left out."`
	Attempt *int   `short:"n" placeholder:"N" help:"Which attempt; the last one when left out."`
	Out     string `name:"out" complete:"dirs" placeholder:"DIR" help:"Write the files there, and those that the program made."`
}

// Help tells what the first line of help does not.
func (taskCodeCmd) Help() string {
	return `A program of one file is printed as it is: "hortus task code ID > main.py". Of several, each has its name before it.`
}

// Run prints a program.
func (c *taskCodeCmd) Run(ctx runContext, a *app) error {
	cl, err := a.client(ctx)
	if err != nil {
		return err
	}
	t, err := taskOf(ctx, cl, c.ID)
	if err != nil {
		return err
	}
	if t.Create.Repo != nil {
		return api.Errorf(api.KindInvalid, "task %s works on a repository", t.ID).WithHint("hortus task diff %s prints its patch", t.ID.Short())
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
				WithHint("it has %s", names(programFiles(at.Artifact)))
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
		a.note("%s written to %s", names(programFiles(at.Artifact)), c.Out)
		return nil
	}
	if a.opt.JSON {
		return a.json(at.Artifact)
	}
	return printFiles(a.env.Stdout, files)
}

// printFiles writes one file as it is, and several with their names.
func printFiles(w io.Writer, files []api.File) error {
	for i, f := range files {
		if len(files) > 1 {
			if i > 0 {
				fmt.Fprintln(w)
			}
			fmt.Fprintf(w, "==> %s <==\n", clean(f.Path))
		}
		if _, err := io.WriteString(w, f.Content); err != nil {
			return api.Errorf(api.KindUnavailable, "print the program: %w", err)
		}
	}
	return nil
}

// attempt gives an attempt that is there.
func attempt(t api.Task, n int) api.Attempt {
	for _, at := range t.Attempts {
		if at.N == n {
			return at
		}
	}
	return api.Attempt{}
}

// lastAttempt gives the last attempt, or nil.
func lastAttempt(t api.Task) *api.Attempt {
	if len(t.Attempts) == 0 {
		return nil
	}
	return &t.Attempts[len(t.Attempts)-1]
}

// programFiles names the files of a program.
func programFiles(a api.CodeArtifact) (names []string) {
	for _, f := range a.Files {
		names = append(names, f.Path)
	}
	return names
}

// Lines of a program and of its output that "task show" prints.
const (
	shownCode   = 40
	shownOutput = 10
)

// showProgram adds what a verified task was verified by: the program, its commands, its
// output and its checks.
func showProgram(w io.Writer, t api.Task) {
	at := lastAttempt(t)
	if at == nil || t.Create.Repo != nil || at.Result == nil {
		return
	}
	if at.Artifact.Compile != "" {
		fmt.Fprintf(w, "compiled with\t%s\n", clean(at.Artifact.Compile))
	}
	fmt.Fprintf(w, "run with\t%s\n", clean(at.Artifact.Run))
	for _, f := range at.Artifact.Files {
		block(w, f.Path, f.Content, shownCode)
	}
	block(w, "output", at.Result.Stdout, shownOutput)
	for _, f := range t.Create.Files {
		fmt.Fprintf(w, "file given\t%s (%s)\n", clean(f.Path), showSize(f.Size))
	}
	for _, f := range at.Result.OutputFiles {
		fmt.Fprintf(w, "file made\t%s (%s)\n", clean(f.Path), showSize(int64(len(f.Bytes()))))
	}
	for _, left := range at.Result.LeftOut {
		fmt.Fprintf(w, "not kept\t%s\n", clean(left))
	}
	if at.Result.OK {
		fmt.Fprintf(w, "verified by\t%s\n", clean(at.Result.Evidence(at.Artifact.Output)))
	}
	for _, c := range at.Result.Checks {
		how := "passed"
		if !c.Passed {
			how = "FAILED"
		}
		fmt.Fprintf(w, "check %s\t%s\n", how, clean(c.Name))
	}
	for _, c := range at.Result.Cautions {
		fmt.Fprintf(w, "CAUTION\tthe program uses %s\n", clean(c.String()))
	}
}

// block adds the first lines of a text.
func block(w io.Writer, name, text string, most int) {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i, l := range lines {
		if i == most {
			fmt.Fprintf(w, "\t... %d more lines\n", len(lines)-most)
			break
		}
		head := ""
		if i == 0 {
			head = clean(name)
		}
		fmt.Fprintf(w, "%s\t%s\n", head, clean(strings.ReplaceAll(l, "\t", "    ")))
	}
}
