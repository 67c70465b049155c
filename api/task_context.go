package api

import "context"

type taskKey struct{}

// WithTask returns a context for work of a task.
func WithTask(ctx context.Context, id TaskID) context.Context {
	return context.WithValue(ctx, taskKey{}, id)
}

// TaskOf returns the task that a context is for, or "".
func TaskOf(ctx context.Context) TaskID {
	id, _ := ctx.Value(taskKey{}).(TaskID)
	return id
}
