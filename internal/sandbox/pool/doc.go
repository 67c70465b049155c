// Package pool boots guests ahead of requests, so that creating a sandbox only claims one.
//
// A pool keeps a few guests of each kind (backend, layers or template, limits). A pooled guest has
// run only the host's warm-up, has no row and no environment, and serves one sandbox. Take returns
// a guest and starts its replacement; the caller claims or discards it, and calls Release once a
// row for it is stored. A kind that was not requested for ten minutes is dropped. Close discards
// the remaining guests and waits.
//
// After the first fork of a sandbox the pool also keeps guests for the next forks of its kind, if their
// backend has kernels of their own: such a guest is a kernel without a state. [Pool.Children] gives a
// fork those that wait, starts some others while its parent is being saved, and starts the rest
// when the state is there.
//
//	p := pool.New(pool.Config{Size: 2, ...})
//	defer p.Close()
//	if g := p.Take(want); g != nil {
//		err := g.Machine.Claim(ctx, env)
//	}
//
// The package must not know rows, admission or what sandboxes are used for.
//
// # Reasons
//
// A pooled guest is a start that stops before its last packet, so that one path gives one set
// of guarantees. Used sandboxes are never reset: it cannot be proven that nothing is left of the
// first user. Limits and layers belong to the kind, because mounts and groups are what takes
// the time. The filler waits until 25 ms have passed since a guest was taken, unless none is
// left.
//
// Children of a fork are started early because half of a start needs nothing of the saved
// state; only as many as the save leaves processors for, since the parent is paused meanwhile.
// Kernels that wait for the next fork take no part in one that is under way.
package pool
