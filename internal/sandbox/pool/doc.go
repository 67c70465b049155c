// Package pool boots guests ahead of the sandboxes that they are for, so that a create has
// to claim one only.
//
// A pool keeps a few guests of each kind (backend, layers or template, limits). A guest in
// it has run nothing but the host's own warm-up, has no row and no environment, and serves
// one sandbox. Take gives a guest and has it replaced; anyone who took it claims or discards
// it, and calls Release once a row speaks for it. A kind that nobody has asked for in ten
// minutes is dropped. Close discards what is left and waits.
//
//	p := pool.New(pool.Config{Size: 2, ...})
//	defer p.Close()
//	if g := p.Take(want); g != nil {
//		err := g.Machine.Claim(ctx, env)
//	}
//
// The package must not know rows, admission or what sandboxes are used for.
package pool
