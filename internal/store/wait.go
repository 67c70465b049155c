package store

import "context"

type waitKey struct{}

// Waiting returns a context whose reads and writes wait for a database that cannot be reached until it ends. After the end of another context they
// wait for a short outage only, like those of other contexts.
func Waiting(ctx, until context.Context) context.Context {
	return context.WithValue(ctx, waitKey{}, until)
}

// WaitsUntil returns the context until whose end a read or a write waits for a long outage; nil if it waits for a short one only.
func WaitsUntil(ctx context.Context) context.Context {
	until, _ := ctx.Value(waitKey{}).(context.Context)
	return until
}
