package store

import "context"

type waitKey struct{}

// Waiting returns a context whose reads and writes wait for a database that cannot be reached until another context ends, or it does itself. Others
// wait for a short outage only.
func Waiting(ctx, until context.Context) context.Context {
	return context.WithValue(ctx, waitKey{}, until)
}

// WaitsUntil returns the context until whose end a read or a write waits; nil if it waits for a short outage only.
func WaitsUntil(ctx context.Context) context.Context {
	until, _ := ctx.Value(waitKey{}).(context.Context)
	return until
}
