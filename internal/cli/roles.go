package cli

import (
	"strings"

	"hortus.dev/api"
)

type planCmd struct {
	Sentence string `arg:"" help:"What is wanted; - reads it from stdin."`
	modelFlag
}

// Run asks the Planner alone.
func (c *planCmd) Run(ctx runContext, a *app) error {
	sentence := c.Sentence
	if sentence == "-" {
		b, err := a.readInput("-")
		if err != nil {
			return err
		}
		sentence = string(b)
	}
	name := c.Model.of(c.Model.by.Planner)
	cl, err := a.modelClient(ctx, name)
	if err != nil {
		return err
	}
	plan, err := cl.Plan(ctx, name, api.PlanRequest{Sentence: strings.TrimSpace(sentence)})
	if err != nil {
		return err
	}
	return a.json(plan)
}

type codeCmd struct {
	Plan string `arg:"" complete:"files" placeholder:"FILE" help:"The plan as JSON (api.ExecutionPlan); - reads it from stdin."`
	modelFlag
}

// Run asks the Coder alone.
func (c *codeCmd) Run(ctx runContext, a *app) error {
	var plan api.ExecutionPlan
	if err := a.readJSON(c.Plan, &plan); err != nil {
		return err
	}
	name := c.Model.of(c.Model.by.Coder)
	cl, err := a.modelClient(ctx, name)
	if err != nil {
		return err
	}
	artifact, err := cl.Code(ctx, name, plan)
	if err != nil {
		return err
	}
	return a.json(artifact)
}

type debugCmd struct {
	Request string `arg:"" complete:"files" placeholder:"FILE" help:"The failed attempt as JSON (api.DebugRequest); - reads it from stdin."`
	modelFlag
}

// Run asks the Debugger alone.
func (c *debugCmd) Run(ctx runContext, a *app) error {
	var req api.DebugRequest
	if err := a.readJSON(c.Request, &req); err != nil {
		return err
	}
	name := c.Model.of(c.Model.by.Debugger, c.Model.by.Coder)
	cl, err := a.modelClient(ctx, name)
	if err != nil {
		return err
	}
	diagnosis, err := cl.Debug(ctx, name, req)
	if err != nil {
		return err
	}
	return a.json(diagnosis)
}
