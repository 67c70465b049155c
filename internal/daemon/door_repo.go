package daemon

import (
	"context"
	"io"

	"hortus.dev/api"
)

// Diff implements access.Engine.
func (e engine) Diff(ctx context.Context, id api.TaskID, round int) (io.ReadCloser, error) {
	return e.s.tasks.Diff(ctx, id, round)
}

// Deliver implements access.Engine.
func (e engine) Deliver(ctx context.Context, id api.TaskID, req api.DeliverTask) (api.Task, error) {
	return e.s.tasks.Deliver(ctx, id, req)
}

// Bundle implements access.Engine.
func (e engine) Bundle(ctx context.Context, id api.TaskID) (io.ReadCloser, error) {
	return e.s.tasks.Bundle(ctx, id)
}

// Transcript implements access.Engine.
func (e engine) Transcript(ctx context.Context, id api.TaskID) (io.ReadCloser, error) {
	return e.s.tasks.Transcript(ctx, id)
}

// GateOutput implements access.Engine.
func (e engine) GateOutput(ctx context.Context, id api.TaskID, round int, which string) (io.ReadCloser, error) {
	return e.s.tasks.GateOutput(ctx, id, round, which)
}
