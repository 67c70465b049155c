package daemon

import (
	"context"
	"io"

	"hortus.dev/api"
	"hortus.dev/internal/agent"
	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/door/access"
	doorhttp "hortus.dev/internal/door/http"
)

// doorSandboxes gives the door the sandboxes in the door's words.
type doorSandboxes struct{ *access.Sandboxes }

// StartExec implements the door's Sandboxes.
func (d doorSandboxes) StartExec(ctx context.Context, id api.SandboxID, req api.ExecRequest) (doorhttp.ExecStream, error) {
	s, err := d.Sandboxes.StartExec(ctx, id, req)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// AttachExec implements the door's Sandboxes.
func (d doorSandboxes) AttachExec(ctx context.Context, id api.SandboxID, exec api.ExecID, offset int64) (doorhttp.ExecStream, error) {
	s, err := d.Sandboxes.AttachExec(ctx, id, exec, offset)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// engine gives access the engine of tasks, and the store's lists.
type engine struct {
	s *System
}

var (
	_ doorhttp.Tasks = (*access.Tasks)(nil)
	_ access.Engine  = engine{}
)

// Reply implements access.Engine.
func (e engine) Reply(ctx context.Context, id api.TaskID, key api.KeyID, req api.ReplyTask) (api.Task, error) {
	return e.s.tasks.Reply(ctx, id, key, req)
}

// Create implements access.Engine.
func (e engine) Create(ctx context.Context, req api.CreateTask) (api.Task, error) {
	return e.s.tasks.Create(ctx, req)
}

// Get implements access.Engine.
func (e engine) Get(ctx context.Context, id api.TaskID) (api.Task, error) {
	return e.s.db.Task(ctx, id)
}

// Cancel implements access.Engine.
func (e engine) Cancel(ctx context.Context, id api.TaskID) (api.Task, error) {
	return e.s.tasks.Cancel(ctx, id)
}

// Output implements access.Engine.
func (e engine) Output(ctx context.Context, id api.TaskID, attempt int, stream string) (io.ReadCloser, error) {
	return e.s.tasks.Output(ctx, id, attempt, stream)
}

// roles lets each role of the pipeline be asked alone.
type roles struct{ models catalogue }

// none drops the facts of a role that works for no task.
type none struct{}

// Emit implements agent.Emitter.
func (none) Emit(context.Context, api.EventType, any) {}

func (r roles) model(name string) (model.Model, error) {
	if name == "" {
		name = defaultModel
	}
	return r.models.open(name)
}

// Plan implements the door's Roles.
func (r roles) Plan(ctx context.Context, name string, req api.PlanRequest) (api.ExecutionPlan, error) {
	m, err := r.model(name)
	if err != nil {
		return api.ExecutionPlan{}, err
	}
	plan, _, err := agent.NewPlanner(m, none{}).Plan(ctx, req)
	return plan, err
}

// Code implements the door's Roles.
func (r roles) Code(ctx context.Context, name string, plan api.ExecutionPlan) (api.CodeArtifact, error) {
	m, err := r.model(name)
	if err != nil {
		return api.CodeArtifact{}, err
	}
	a, _, err := agent.NewCoder(m, none{}, api.DefaultInstallTimeout, api.DefaultRunTimeout).Code(ctx, plan)
	return a, err
}

// Debug implements the door's Roles.
func (r roles) Debug(ctx context.Context, name string, req api.DebugRequest) (api.Diagnosis, error) {
	m, err := r.model(name)
	if err != nil {
		return api.Diagnosis{}, err
	}
	d, _, err := agent.NewDebugger(m, none{}, api.DefaultInstallTimeout, api.DefaultRunTimeout).Diagnose(ctx, req)
	return d, err
}
