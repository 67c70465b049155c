package daemon

import (
	"context"
	"io"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent"
	doorhttp "hortus.dev/internal/door/http"
	"hortus.dev/internal/model"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/store"
	"hortus.dev/internal/tally"
)

// doorSandboxes gives the door the manager in the door's words.
type doorSandboxes struct{ *sandbox.Manager }

// StartExec implements the door's Sandboxes.
func (d doorSandboxes) StartExec(ctx context.Context, id api.SandboxID, req api.ExecRequest) (doorhttp.ExecStream, error) {
	s, err := d.Manager.StartExec(ctx, id, req)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// AttachExec implements the door's Sandboxes.
func (d doorSandboxes) AttachExec(ctx context.Context, id api.SandboxID, exec api.ExecID, offset int64) (doorhttp.ExecStream, error) {
	s, err := d.Manager.AttachExec(ctx, id, exec, offset)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// doorTasks gives the door the engine, and the store's lists.
type doorTasks struct {
	s *System
}

var _ doorhttp.Tasks = doorTasks{}

// Create implements the door's Tasks.
func (d doorTasks) Create(ctx context.Context, req api.CreateTask) (api.Task, error) {
	return d.s.tasks.Create(ctx, req)
}

// Get implements the door's Tasks.
func (d doorTasks) Get(ctx context.Context, id api.TaskID) (api.Task, error) {
	return d.s.db.Task(ctx, id)
}

// List implements the door's Tasks.
func (d doorTasks) List(ctx context.Context, limit int) ([]api.Task, error) {
	return d.s.db.Tasks(ctx, store.TaskFilter{Limit: limit, WithAttempts: true})
}

// Stats implements the door's Tasks.
func (d doorTasks) Stats(ctx context.Context, since time.Time) (api.TaskStats, error) {
	y := tally.New(since)
	err := d.s.db.WalkTasks(ctx, store.TaskFilter{Since: since, WithAttempts: true}, func(t api.Task) error {
		y.Add(t)
		return nil
	})
	return y.Stats(), err
}

// Find implements the door's Tasks.
func (d doorTasks) Find(ctx context.Context, prefix string) (api.TaskID, error) {
	return d.s.db.FindTask(ctx, prefix)
}

// Cancel implements the door's Tasks.
func (d doorTasks) Cancel(ctx context.Context, id api.TaskID) (api.Task, error) {
	return d.s.tasks.Cancel(ctx, id)
}

// Output implements the door's Tasks.
func (d doorTasks) Output(ctx context.Context, id api.TaskID, attempt int, stream string) (io.ReadCloser, error) {
	return d.s.tasks.Output(ctx, id, attempt, stream)
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
