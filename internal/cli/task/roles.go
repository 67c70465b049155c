package task

import (
	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
)

// PlanCommand is "hortus plan".
type PlanCommand struct {
	Sentence string `arg:"" help:"Request in plain language; - reads stdin."`
	modelFlag
}

// Run asks the Planner alone.
func (c *PlanCommand) Run(ctx app.Context, a *app.App) error {
	sentence, err := a.ReadArgument(c.Sentence)
	if err != nil {
		return err
	}
	name := c.Model.of(c.Model.by.Planner)
	return answer(ctx, a, name, func(roles *client.RoleService) (any, error) {
		return roles.Plan(ctx, name, api.PlanRequest{Sentence: sentence})
	})
}

// CodeCommand is "hortus code".
type CodeCommand struct {
	Plan string `arg:"" complete:"files" placeholder:"FILE" help:"Plan as JSON (api.ExecutionPlan); - reads stdin."`
	modelFlag
}

// Run asks the Coder alone.
func (c *CodeCommand) Run(ctx app.Context, a *app.App) error {
	var plan api.ExecutionPlan
	if err := a.ReadJSON(c.Plan, &plan); err != nil {
		return err
	}
	name := c.Model.of(c.Model.by.Coder)
	return answer(ctx, a, name, func(roles *client.RoleService) (any, error) { return roles.Code(ctx, name, plan) })
}

// DebugCommand is "hortus debug".
type DebugCommand struct {
	Request string `arg:"" complete:"files" placeholder:"FILE" help:"Failed attempt as JSON (api.DebugRequest); - reads stdin."`
	modelFlag
}

// Run asks the Debugger alone.
func (c *DebugCommand) Run(ctx app.Context, a *app.App) error {
	var req api.DebugRequest
	if err := a.ReadJSON(c.Request, &req); err != nil {
		return err
	}
	name := c.Model.of(c.Model.by.Debugger, c.Model.by.Coder)
	return answer(ctx, a, name, func(roles *client.RoleService) (any, error) { return roles.Debug(ctx, name, req) })
}

// answer asks a role of a model and prints its answer as JSON.
func answer(ctx app.Context, a *app.App, model string, ask func(*client.RoleService) (any, error)) error {
	cl, err := modelClient(ctx, a, model)
	if err != nil {
		return err
	}
	v, err := ask(cl.Roles)
	if err != nil {
		return err
	}
	return a.JSON(v)
}
