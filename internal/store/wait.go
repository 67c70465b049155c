package store

import (
	"context"

	"hortus.dev/api"
)

type (
	waitKey   struct{}
	writerKey struct{}
)

// Writing returns a context whose events are those of an owner: after the end of the owner none is stored (KindConflict), also if it waited. What the
// owner had belongs to others then.
func Writing(ctx context.Context, owner api.OwnerID) context.Context {
	return context.WithValue(ctx, writerKey{}, owner)
}

// WriterOf returns the owner whose events a context stores; empty for any.
func WriterOf(ctx context.Context) api.OwnerID {
	owner, _ := ctx.Value(writerKey{}).(api.OwnerID)
	return owner
}

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
