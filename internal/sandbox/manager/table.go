package manager

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/command"
	"hortus.dev/internal/sandbox/life"
)

// table has the sandboxes that live here, and the work in the background that belongs to them.
type table struct {
	rows sandbox.Rows

	// ctx ends when the manager closes. Background work uses it; wg waits for that work.
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex
	entries map[api.SandboxID]*instance
	closed  bool
}

func newTable(rows sandbox.Rows) *table {
	t := &table{rows: rows, entries: map[api.SandboxID]*instance{}}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	return t
}

func (t *table) lookup(id api.SandboxID) (*instance, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	in, ok := t.entries[id]
	return in, ok
}

// find returns a sandbox that is live here, or else its row. A sandbox that is resumed from disk
// between the two lookups is live: by its row alone it would be running elsewhere.
func (t *table) find(ctx context.Context, id api.SandboxID) (*instance, api.Sandbox, error) {
	for looks := 1; ; looks++ {
		if in, ok := t.lookup(id); ok {
			return in, api.Sandbox{}, nil
		}
		row, err := t.rows.Sandbox(ctx, id)
		// If a sandbox of this daemon has ended by the next lookup, its row says so. If the row
		// says running at the third lookup, it belongs to another daemon.
		if err != nil || row.State.Final() || suspended(row) || looks == 3 {
			return nil, row, err
		}
	}
}

// here returns a sandbox that is live here, or an error with the reason why it is not.
func (t *table) here(ctx context.Context, id api.SandboxID) (*instance, error) {
	in, row, err := t.find(ctx, id)
	switch {
	case in != nil || err != nil:
		return in, err
	case suspended(row):
		return nil, command.Suspended(row)
	}
	return nil, ended(row)
}

// running returns a running sandbox, or an error with the reason why it is not running. It waits
// for a pause or a resume in progress.
func (t *table) running(ctx context.Context, id api.SandboxID) (*instance, error) {
	in, err := t.here(ctx, id)
	if err != nil {
		return nil, err
	}
	for {
		switch state, changed := in.Stand(); state {
		case life.Running, life.Saving, life.Suspending: // streams wait at the gate
			return in, nil
		case life.Pausing, life.Resuming:
			if err := await(ctx, changed); err != nil {
				return nil, err
			}
		default:
			return nil, refused(in)
		}
	}
}

func await(ctx context.Context, ch <-chan struct{}) error {
	select {
	case <-ch:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// changing returns a channel that is closed when the state of a sandbox changes in which
// work is under way; nil if there is none.
func (t *table) changing(id api.SandboxID) <-chan struct{} {
	in, ok := t.lookup(id)
	if !ok {
		return nil
	}
	state, changed := in.Stand()
	switch {
	case state.Final(): // it is being taken out of the table
		return in.ended
	case state.Busy() && state != life.Saving:
		return changed
	}
	return nil
}

// awaitStill waits until no change of a sandbox is in progress.
func (t *table) awaitStill(ctx context.Context, id api.SandboxID) error {
	for {
		changed := t.changing(id)
		if changed == nil {
			return nil
		}
		if err := await(ctx, changed); err != nil {
			return err
		}
	}
}

// register puts a sandbox into the table, unless the manager is closing or has another with the id.
func (t *table) register(in *instance) (err error) {
	open := t.whileOpen(func() {
		if t.entries[in.id] != nil {
			err = api.Errorf(api.KindConflict, "sandbox %s is being resumed or stopped", in.id)
			return
		}
		t.entries[in.id] = in
	})
	return cmp.Or(open, err)
}

// remove takes a sandbox out of the table.
func (t *table) remove(in *instance) {
	t.mu.Lock()
	delete(t.entries, in.id)
	t.mu.Unlock()
	in.releaseCapacity()
}

// all returns the sandboxes that are in the table now.
func (t *table) all() []*instance {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Values(t.entries))
}

// whileOpen calls do, which must not perform I/O, before the manager closes. It is an error, and do is
// not called, once the manager has closed.
func (t *table) whileOpen(do func()) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return api.Errorf(api.KindUnavailable, "the daemon is stopping")
	}
	do()
	return nil
}

// spawn starts a goroutine that the end of the manager waits for. It is false, and starts
// none, once the manager has closed.
func (t *table) spawn(f func()) bool {
	return t.whileOpen(func() { t.wg.Go(f) }) == nil
}

// close takes no more sandboxes in, and gives those that are there.
func (t *table) close() []*instance {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	return t.all()
}

// wait ends the background work, and returns when it is over.
func (t *table) wait() {
	t.cancel()
	t.wg.Wait()
}
