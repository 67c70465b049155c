package sandboxes

import (
	"context"
	"sync"

	"hortus.dev/api"
)

// turns let one caller at a time have a sandbox.
type turns struct {
	mu  sync.Mutex
	all map[api.SandboxID]*oneTurn
}

// oneTurn is held by who sent to it. users are those who hold it or wait.
type oneTurn struct {
	held  chan struct{}
	users int
}

// take waits for the turn of a sandbox, until end is called.
func (t *turns) take(ctx context.Context, id api.SandboxID) (end func(), err error) {
	t.mu.Lock()
	if t.all == nil {
		t.all = map[api.SandboxID]*oneTurn{}
	}
	at := t.all[id]
	if at == nil {
		at = &oneTurn{held: make(chan struct{}, 1)}
		t.all[id] = at
	}
	at.users++
	t.mu.Unlock()
	leave := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if at.users--; at.users == 0 {
			delete(t.all, id)
		}
	}
	select {
	case at.held <- struct{}{}:
		return func() { <-at.held; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}
