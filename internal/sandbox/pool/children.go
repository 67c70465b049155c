package pool

import (
	"context"
	"sync"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
)

// Children are the guests of a fork that start before the state of their parent is there: those
// that waited in the pool, and some that start while the parent is being saved. The others
// start afterwards.
type Children struct {
	pool    *Pool
	backend sandbox.Backend
	ids     []api.SandboxID
	group   *group // nil if the pool has none for them
	wg      sync.WaitGroup

	mu   sync.Mutex
	have map[api.SandboxID]child
}

// child is a guest that waits for its state.
type child struct {
	machine sandbox.Expected
	pooled  bool
}

// Children begins a fork into count sandboxes like w. The guests in the pool are used first, until
// there are early guests others start now, and the rest when it is restored. With early 0, or a backend that cannot
// expect one, none starts before. ctx limits the start of guests. Close must be called.
func (p *Pool) Children(ctx context.Context, w Want, count, early int) *Children {
	c := &Children{pool: p, backend: w.Backend, have: map[api.SandboxID]child{}}
	if !w.Backend.Capabilities().Expect {
		early = 0
	}
	w.Spec.Env, w.child = nil, true
	if early > 0 {
		for _, g := range c.take(w, count) {
			c.ids = append(c.ids, g.ID)
			c.have[g.ID] = child{g.waits, true}
		}
	}
	early -= len(c.ids)
	for range count - len(c.ids) {
		spec := w.Spec
		spec.ID = p.begin()
		c.ids = append(c.ids, spec.ID)
		if early--; early >= 0 {
			c.wg.Go(func() { c.expect(ctx, spec) })
		}
	}
	return c
}

// take takes guests out of the pool, which starts no others until Close.
func (c *Children) take(w Want, count int) []*Guest {
	k, prepare, ok := c.pool.kindOf(w)
	if !ok {
		return nil
	}
	p := c.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() != nil {
		return nil
	}
	c.group = p.group(k, prepare, w)
	c.group.forks++
	p.start()
	taken := c.group.ready[:min(count, len(c.group.ready))]
	c.group.ready = c.group.ready[len(taken):]
	p.signal()
	return taken
}

// expect starts one guest.
func (c *Children) expect(ctx context.Context, spec sandbox.Spec) {
	m, err := expect(ctx, c.backend, spec)
	if err != nil {
		c.pool.cfg.Logger.Info("a child of a fork was not prepared early", "sandbox", spec.ID, "error", err)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.have[spec.ID] = child{m, false}
}

// expect starts a guest that waits for its state. Its host name is its identifier, as that of every
// child.
func expect(ctx context.Context, b sandbox.Backend, spec sandbox.Spec) (sandbox.Expected, error) {
	spec.Hostname = string(spec.ID)
	return b.Expect(ctx, spec)
}

// IDs are the identifiers of the children.
func (c *Children) IDs() []api.SandboxID { return c.ids }

// Restore completes a child from the image in dir. A child that did not start before starts now.
func (c *Children) Restore(ctx context.Context, spec sandbox.Spec, dir string) (sandbox.Machine, error) {
	c.wg.Wait()
	c.mu.Lock()
	g, ok := c.have[spec.ID]
	delete(c.have, spec.ID)
	c.mu.Unlock()
	if !ok {
		return c.start(ctx, spec, dir)
	}
	m, err := g.machine.Restore(ctx, dir)
	if err != nil && g.pooled && ctx.Err() == nil {
		// It may have ended while it waited in the pool.
		c.pool.cfg.Logger.Warn("a guest that waited for a fork was not restored", "sandbox", spec.ID, "error", err)
		return c.start(ctx, spec, dir)
	}
	return m, err
}

func (c *Children) start(ctx context.Context, spec sandbox.Spec, dir string) (sandbox.Machine, error) {
	return c.backend.Restore(ctx, spec, dir)
}

// Close ends the guests that were not restored, and lets the pool start others.
func (c *Children) Close() {
	c.wg.Wait()
	for _, g := range c.have {
		g.machine.Drop()
	}
	for _, id := range c.ids {
		c.pool.Release(id)
	}
	if c.group == nil {
		return
	}
	c.pool.mu.Lock()
	c.group.forks--
	c.group.taken = c.pool.cfg.Now()
	c.pool.mu.Unlock()
	c.pool.nudge()
}
