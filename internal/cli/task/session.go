package task

import (
	"cmp"
	"context"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/task/view"
	"hortus.dev/internal/cli/terminal"
)

// What follows is for the commands about sessions, whose turns are tasks.

// BudgetFlags bound the work of an agent.
type BudgetFlags = budgetFlags

// Limits are what the flags say.
func (f *budgetFlags) Limits() (out api.Budget, rounds int, err error) { return f.budget() }

// ModelNames is what --model says.
type ModelNames = modelNames

// Agent is the model of an agent, and the one that it moves to.
func (m modelNames) Agent() (name, large string, err error) {
	name, by, err := m.agent()
	return name, by.Large, err
}

// FindRepository finds the repository that a person names, and who the commits are by.
func FindRepository(ctx context.Context, a *app.App, text, author string) (api.TaskRepository, api.Identity, error) {
	c := taskStartCmd{Repo: []string{text}, Author: author}
	g := person(a)
	r, tree, err := c.repository(ctx, a, g, text)
	if err != nil {
		return r, api.Identity{}, err
	}
	who, err := c.author(ctx, a, g, cmp.Or(tree.Root, "."))
	return r, who, err
}

// Follow shows the events of a task until it is done. The first interrupt cancels it.
func Follow(ctx context.Context, a *app.App, c *client.Client, id api.TaskID, p *view.Progress, stop *terminal.Interrupts) (api.Task, error) {
	return follow(ctx, a, c, id, p, stop)
}

// Client returns a client of a daemon that has the keys of models.
func Client(ctx context.Context, a *app.App, models ...string) (*client.Client, error) {
	return modelClient(ctx, a, models...)
}

// ExitOf is the exit code of an outcome with its error.
func ExitOf(o api.Outcome, err *api.Error) error { return outcome(api.Task{Outcome: o, Error: err}) }
