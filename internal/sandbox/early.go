package sandbox

import (
	"context"
	"sync"

	"hortus.dev/api"
)

// early are children of a fork that are begun while their parent is being saved: as
// many as leave the save a processor. What goes wrong with one is no failure of the
// fork: that child is restored as the others are, and says so itself.
type early struct {
	m   *Manager
	ids []api.SandboxID
	wg  sync.WaitGroup

	mu   sync.Mutex
	have map[api.SandboxID]Expected
}

// expect begins children, and does not wait.
func (e *early) expect(ctx context.Context, parent *live, ids []api.SandboxID, dir string) {
	b, ok := parent.backend.(Expecter)
	if !ok {
		return
	}
	e.ids, e.have = ids, map[api.SandboxID]Expected{}
	of := parent.snapshot()
	for _, id := range ids {
		child := newLive(of, parent.backend)
		child.row.ID, child.row.Parent = id, of.ID
		child.layers, child.asked = parent.layers, parent.asked
		spec := child.spec()
		e.m.mu.Lock()
		e.m.early[id] = struct{}{} // nobody's leftover, although no row names it
		e.m.mu.Unlock()
		e.wg.Go(func() {
			x, err := b.Expect(ctx, spec, dir)
			if err != nil {
				e.m.log.Info("a child of a fork is not begun early", "sandbox", id, "error", err)
				return
			}
			e.mu.Lock()
			e.have[id] = x
			e.mu.Unlock()
		})
	}
}

// restore gives how a child comes to its state.
func (e *early) restore(id api.SandboxID, parent *live, dir string) func(context.Context, Spec) (Prepared, error) {
	return func(ctx context.Context, spec Spec) (Prepared, error) {
		e.wg.Wait()
		e.mu.Lock()
		x := e.have[id]
		e.mu.Unlock()
		if x != nil {
			return x.Restore(ctx)
		}
		return parent.backend.(Restorer).Restore(ctx, spec, dir)
	}
}

// drop ends what nobody restored.
func (e *early) drop() {
	e.wg.Wait()
	for _, x := range e.have {
		x.Drop()
	}
	e.m.mu.Lock()
	defer e.m.mu.Unlock()
	for _, id := range e.ids {
		delete(e.m.early, id)
	}
}
