package task

import (
	"context"
	"path/filepath"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/flags"
	"hortus.dev/internal/cli/human"
	"hortus.dev/internal/cli/terminal"
)

type taskReplyCmd struct {
	ID             string         `arg:"" complete:"tasks" help:"ID of a task that ended with a question, or a unique prefix of it."`
	Reply          string         `arg:"" help:"Answer to the question; - reads stdin."`
	Attempts       *int           `placeholder:"N" help:"Maximum number of attempts of a program (1 to 10)."`
	Rounds         *int           `placeholder:"N" help:"Maximum repair rounds after a failed gate (0 to 10)."`
	Steps          *int           `placeholder:"N" help:"Maximum number of model calls."`
	Tokens         *int64         `placeholder:"N" help:"Maximum number of tokens, input and output together."`
	Cost           *float64       `placeholder:"USD" help:"Maximum cost of the model calls."`
	Wall           flags.Duration `placeholder:"30m" help:"Timeout of the whole task."`
	TestsMayChange bool           `help:"Accept changes to existing tests: the gate with the original tests no longer decides."`
}

// Help returns what the first lines of help do not.
func (taskReplyCmd) Help() string {
	return "A new task continues the work: on a repository in the same workspace, for a program from the last attempt. " +
		"Budgets, rounds and attempts are counted from zero; their default limits are those of the first task."
}

// Run answers the question of a task and follows the task that continues it.
func (c *taskReplyCmd) Run(ctx app.Context, a *app.App) error {
	text, err := a.ReadArgument(c.Reply)
	if err != nil {
		return err
	}
	if text == "" {
		return api.Errorf(api.KindInvalid, "the reply is empty").WithHint(`hortus task reply %s "ANSWER"`, human.Sanitize(c.ID))
	}
	req := api.ReplyTask{Reply: text, TestsMayChange: c.TestsMayChange}
	limits := budgetFlags{Rounds: c.Rounds, Steps: c.Steps, Tokens: c.Tokens, Cost: c.Cost, Wall: c.Wall}
	if req.Budget, req.Rounds, err = limits.budget(); err != nil {
		return err
	}
	if c.Attempts != nil {
		if req.Attempts = *c.Attempts; req.Attempts < 1 || req.Attempts > api.MaxAttempts {
			return api.Errorf(api.KindInvalid, "--attempts: %d is not between 1 and %d", req.Attempts, api.MaxAttempts)
		}
	}
	cl, err := a.Client(ctx)
	if err != nil {
		return err
	}
	old, err := cl.Tasks.Get(ctx, c.ID)
	if err != nil {
		return err
	}
	// The daemon must have the models and tokens that are set here.
	a.NeedForges = old.Create.Repo != nil && (old.Create.Repo.Push || !filepath.IsAbs(old.Create.Repo.URL))
	m := old.Create.Models
	return startWith(ctx, a, []string{old.Create.Model, m.Planner, m.Coder, m.Debugger, m.Large, m.Small}, &outDir{}, false,
		func(ctx context.Context, cl *client.Client, _ *terminal.Interrupts) (api.Task, error) {
			return cl.Tasks.Reply(ctx, old.ID, req)
		})
}
