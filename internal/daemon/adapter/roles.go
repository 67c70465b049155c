package adapter

import (
	"context"

	"hortus.dev/api"
	"hortus.dev/internal/agent"
	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/agent/model/catalogue"
	"hortus.dev/internal/task"
)

// Roles implements the server's Roles: each role of the pipeline alone, without a task.
type Roles struct{ Models *catalogue.Catalogue }

// noEvents implements agent.Emitter for a role without a task.
type noEvents struct{}

// Emit implements agent.Emitter.
func (noEvents) Emit(context.Context, api.EventType, any) {}

// model returns a model by name; "" is the default one.
func (r Roles) model(name string) (model.Model, error) {
	if name == "" {
		name = task.DefaultModel
	}
	return r.Models.Open(name)
}

// Plan implements the server's Roles.
func (r Roles) Plan(ctx context.Context, name string, req api.PlanRequest) (api.ExecutionPlan, error) {
	m, err := r.model(name)
	if err != nil {
		return api.ExecutionPlan{}, err
	}
	plan, _, err := agent.NewPlanner(m, noEvents{}).Plan(ctx, req)
	return plan, err
}

// Code implements the server's Roles.
func (r Roles) Code(ctx context.Context, name string, plan api.ExecutionPlan) (api.CodeArtifact, error) {
	m, err := r.model(name)
	if err != nil {
		return api.CodeArtifact{}, err
	}
	a, _, err := agent.NewCoder(m, noEvents{}, api.DefaultInstallTimeout, api.DefaultRunTimeout).Code(ctx, plan)
	return a, err
}

// Debug implements the server's Roles.
func (r Roles) Debug(ctx context.Context, name string, req api.DebugRequest) (api.Diagnosis, error) {
	m, err := r.model(name)
	if err != nil {
		return api.Diagnosis{}, err
	}
	d, _, err := agent.NewDebugger(m, noEvents{}, api.DefaultInstallTimeout, api.DefaultRunTimeout).Diagnose(ctx, req)
	return d, err
}
