package task

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/flags"
	"hortus.dev/internal/cli/human"
	"hortus.dev/internal/cli/sandbox"
	"hortus.dev/internal/cli/task/view"
)

// RunCommand is "hortus run".
type RunCommand struct {
	Sentence string   `arg:"" help:"Request in plain language; - reads stdin."`
	Attempts *int     `env:"HORTUS_ATTEMPTS" placeholder:"N" help:"Maximum number of attempts (1 to 10, default 3)."`
	File     []string `name:"file" complete:"files" sep:"none" placeholder:"[NAME=]FILE" help:"Input file for the program's directory, optionally with another name. Repeatable (maximum 2 MiB in total)."`
	Record   string   `complete:"files" placeholder:"FILE" help:"File to record every model call in, without secrets, for --model replay:FILE."`
	schemaFlag
	modelFlag
	taskFlags
	flags.Sandbox
}

// Run requests a verified program.
func (c *RunCommand) Run(ctx app.Context, a *app.App) error {
	sentence, err := a.ReadArgument(c.Sentence)
	if err != nil {
		return err
	}
	if sentence == "" {
		return api.Errorf(api.KindInvalid, "the request is empty").WithHint(`hortus run "print the first 20 prime numbers"`)
	}
	if cmp.Or(c.Isolation, a.Config.Get("sandbox.isolation").Text) == "wasm" {
		if err := sandbox.CheckFile(sentence); err != nil {
			return err
		}
		return sandbox.RunFile(ctx, a, c.Sandbox, sentence)
	}
	req := api.CreateTask{Request: sentence, Model: c.Model.all, Models: c.Model.by}
	if req.Files, err = readInputs(c.File); err != nil {
		return err
	}
	if req.Schema, err = c.schemaFlag.read(); err != nil {
		return err
	}
	if c.Record != "" {
		abs, err := filepath.Abs(c.Record)
		if err != nil {
			return api.Errorf(api.KindInvalid, "--record: %w", err)
		}
		req.Record = abs
	}
	if c.Attempts != nil {
		if req.Attempts = *c.Attempts; req.Attempts < 1 || req.Attempts > api.MaxAttempts {
			return api.Errorf(api.KindInvalid, "--attempts: %d is not between 1 and %d", req.Attempts, api.MaxAttempts)
		}
	}
	if c.Model == (ModelNames{}) {
		if req.Model, err = ModelAtHand(ctx, a); err != nil {
			return err
		}
	}
	return perform(ctx, a, req, c.taskFlags, &c.Sandbox)
}

// RoleCommand is "hortus role".
type RoleCommand struct {
	Plan    planCmd    `cmd:"" help:"Run the Planner alone: request in, plan out."`
	Code    codeCmd    `cmd:"" help:"Run the Coder alone: plan in, program out."`
	Execute executeCmd `cmd:"" help:"Run the Executor alone: program in, its output out, without a model."`
	Debug   debugCmd   `cmd:"" help:"Run the Debugger alone: failed attempt in, diagnosis out."`
}

type executeCmd struct {
	Artifact string `arg:"" complete:"files" placeholder:"FILE" help:"Program as JSON (api.CodeArtifact); - reads stdin."`
	schemaFlag
	taskFlags
	flags.Sandbox
}

// Run runs a program once.
func (c *executeCmd) Run(ctx app.Context, a *app.App) error {
	var artifact api.CodeArtifact
	if err := a.ReadJSON(c.Artifact, &artifact); err != nil {
		if e := (*api.Error)(nil); errors.As(err, &e) && e.Kind == api.KindInvalid {
			err = e.WithHint("the program is what hortus role code prints; to run a source file: hortus code FILE")
		}
		return err
	}
	schema, err := c.schemaFlag.read()
	if err != nil {
		return err
	}
	return perform(ctx, a, api.CreateTask{Artifact: &artifact, Schema: schema}, c.taskFlags, &c.Sandbox)
}

type planCmd struct {
	Sentence string `arg:"" help:"Request in plain language; - reads stdin."`
	modelFlag
}

// Run asks the Planner alone.
func (c *planCmd) Run(ctx app.Context, a *app.App) error {
	sentence, err := a.ReadArgument(c.Sentence)
	if err != nil {
		return err
	}
	name := c.Model.of(c.Model.by.Planner)
	return answer(ctx, a, name, func(roles *client.RoleService) (any, error) {
		return roles.Plan(ctx, name, api.PlanRequest{Sentence: sentence})
	})
}

type codeCmd struct {
	Plan string `arg:"" complete:"files" placeholder:"FILE" help:"Plan as JSON (api.ExecutionPlan); - reads stdin."`
	modelFlag
}

// Run asks the Coder alone.
func (c *codeCmd) Run(ctx app.Context, a *app.App) error {
	var plan api.ExecutionPlan
	if err := a.ReadJSON(c.Plan, &plan); err != nil {
		return err
	}
	name := c.Model.of(c.Model.by.Coder)
	return answer(ctx, a, name, func(roles *client.RoleService) (any, error) { return roles.Code(ctx, name, plan) })
}

type debugCmd struct {
	Request string `arg:"" complete:"files" placeholder:"FILE" help:"Failed attempt as JSON (api.DebugRequest); - reads stdin."`
	modelFlag
}

// Run asks the Debugger alone.
func (c *debugCmd) Run(ctx app.Context, a *app.App) error {
	var req api.DebugRequest
	if err := a.ReadJSON(c.Request, &req); err != nil {
		return err
	}
	name := c.Model.of(c.Model.by.Debugger, c.Model.by.Coder)
	return answer(ctx, a, name, func(roles *client.RoleService) (any, error) { return roles.Debug(ctx, name, req) })
}

// answer asks a role of a model and prints its answer as JSON.
func answer(ctx app.Context, a *app.App, model string, ask func(*client.RoleService) (any, error)) error {
	cl, err := Client(ctx, a, model)
	if err != nil {
		return err
	}
	v, err := ask(cl.Roles)
	if err != nil {
		return err
	}
	return a.JSON(v)
}

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
