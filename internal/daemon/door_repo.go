package daemon

import (
	"context"
	"io"

	"hortus.dev/api"
)

// Diff implements the door's RepoTasks.
func (d doorTasks) Diff(ctx context.Context, id api.TaskID, round int) (io.ReadCloser, error) {
	return d.s.tasks.Diff(ctx, id, round)
}

// Deliver implements the door's RepoTasks.
func (d doorTasks) Deliver(ctx context.Context, id api.TaskID, req api.DeliverTask) (api.Task, error) {
	return d.s.tasks.Deliver(ctx, id, req)
}

// Bundle implements the door's RepoTasks.
func (d doorTasks) Bundle(ctx context.Context, id api.TaskID) (io.ReadCloser, error) {
	return d.s.tasks.Bundle(ctx, id)
}

// Transcript implements the door's RepoTasks.
func (d doorTasks) Transcript(ctx context.Context, id api.TaskID) (io.ReadCloser, error) {
	return d.s.tasks.Transcript(ctx, id)
}

// GateOutput implements the door's RepoTasks.
func (d doorTasks) GateOutput(ctx context.Context, id api.TaskID, round int, which string) (io.ReadCloser, error) {
	return d.s.tasks.GateOutput(ctx, id, round, which)
}
