package manager

import (
	"context"
	"hortus.dev/internal/sandbox"
	"sync"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox/life"
)

// early has the children of a fork that start while their parent is being saved: as many as
// leave a processor for the save. If one of them fails, the fork does not fail: that child is
// restored like the others, and reports its own errors.
type early struct {
	c   *core
	ids []api.SandboxID
	wg  sync.WaitGroup

	mu   sync.Mutex
	have map[api.SandboxID]sandbox.Expected
}

// expect begins children, and does not wait.
func (e *early) expect(ctx context.Context, parent *live, ids []api.SandboxID, dir string) {
	b, ok := parent.backend.(sandbox.Expecter)
	if !ok {
		return
	}
	e.ids, e.have = ids, map[api.SandboxID]sandbox.Expected{}
	of := parent.Row()
	for _, id := range ids {
		row := of
		row.ID, row.Parent = id, of.ID
		child := e.c.newLive(row, parent.backend, life.Queued)
		child.layers, child.asked = parent.layers, parent.asked
		spec := child.spec()
		e.c.mu.Lock()
		e.c.early[id] = struct{}{} // not a leftover, although it has no row
		e.c.mu.Unlock()
		e.wg.Go(func() {
			x, err := b.Expect(ctx, spec, dir)
			if err != nil {
				e.c.log.Info("a child of a fork was not prepared early", "sandbox", id, "error", err)
				return
			}
			e.mu.Lock()
			e.have[id] = x
			e.mu.Unlock()
		})
	}
}

// restore returns the function that restores a child.
func (e *early) restore(id api.SandboxID, parent *live, dir string) func(context.Context, sandbox.Spec) (sandbox.Prepared, error) {
	return func(ctx context.Context, spec sandbox.Spec) (sandbox.Prepared, error) {
		e.wg.Wait()
		e.mu.Lock()
		x := e.have[id]
		e.mu.Unlock()
		if x != nil {
			return x.Restore(ctx)
		}
		return parent.backend.(sandbox.Restorer).Restore(ctx, spec, dir)
	}
}

// drop ends the machines that were not restored.
func (e *early) drop() {
	e.wg.Wait()
	for _, x := range e.have {
		x.Drop()
	}
	e.c.mu.Lock()
	defer e.c.mu.Unlock()
	for _, id := range e.ids {
		delete(e.c.early, id)
	}
}
