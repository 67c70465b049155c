package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox/manager"
)

// way is one way of coming by a sandbox. Its name ends the names of its rows.
type way struct {
	name string
	// create makes one as fast as this way can.
	create func(context.Context, *manager.Manager, api.CreateSandbox) (api.Sandbox, error)
	// note is what a row's reader must know, or that a backend has no such way.
	note func(ctx context.Context, m *manager.Manager, backend string) (note string, has bool, err error)
}

// ways are taken in turn by every measurement that creates sandboxes.
var ways = []way{cold, pooled}

// cold boots a guest for each sandbox.
var cold = way{
	name: "cold",
	create: func(ctx context.Context, m *manager.Manager, req api.CreateSandbox) (api.Sandbox, error) {
		return m.CreateCold(ctx, req)
	},
	note: func(context.Context, *manager.Manager, string) (string, bool, error) { return "", true, nil },
}

// pooled claims guests that were booted ahead, for as long as there are any.
var pooled = way{
	name: "pooled",
	create: func(ctx context.Context, m *manager.Manager, req api.CreateSandbox) (api.Sandbox, error) {
		return m.Create(ctx, req)
	},
	note: func(ctx context.Context, m *manager.Manager, backend string) (string, bool, error) {
		n, err := m.Pooled(ctx, request(backend))
		return fmt.Sprintf("a pool of %d", n), n > 0, err
	},
}

// lifetime is how long a sandbox may live that is measured: some are there for as long as
// a measurement takes.
const lifetime = 6 * time.Hour

// request requests a sandbox of the default kind.
func request(backend string) api.CreateSandbox {
	return api.CreateSandbox{Isolation: backend, TTLMS: lifetime.Milliseconds()}
}

// waysOf lists those that a backend has, with their notes.
func (r *run) waysOf(ctx context.Context, backend string) (list []way, notes []string, err error) {
	for _, w := range ways {
		note, has, err := w.note(ctx, r.Sandboxes, backend)
		if err != nil {
			return nil, nil, err
		}
		if has {
			list, notes = append(list, w), append(notes, note)
		}
	}
	return list, notes, nil
}

// quietWithin bounds the wait for a full pool.
const quietWithin = 2 * time.Minute

// quiet waits until no guest is being booted ahead. It comes before every sample
// of whatever kind, outside of its clock: so each has the host to itself, finds a
// full pool, and every count has the same guests in it.
func quiet(ctx context.Context, m *manager.Manager) error {
	waiting, cancel := context.WithTimeout(ctx, quietWithin)
	defer cancel()
	err := m.AwaitWarm(waiting)
	if err != nil && ctx.Err() == nil {
		ready, want := m.Warm()
		return api.Errorf(api.KindTimeout, "after %s %d of %d guests are warm", quietWithin, ready, want).
			WithHint("the daemon's log says why no more could be booted ahead")
	}
	return err
}

// birth creates a sandbox and runs its first command. The time is from the call
// of Create to the end of that command. After an error nothing is left.
func (b *Bench) birth(ctx context.Context, w way, backend string) (api.SandboxID, time.Duration, error) {
	start := time.Now()
	s, err := w.create(ctx, b.Sandboxes, request(backend))
	if err != nil {
		return "", 0, err
	}
	if err := b.recorded(ctx, s.ID); err != nil {
		return "", 0, errors.Join(err, b.destroy(ctx, s.ID))
	}
	return s.ID, time.Since(start), nil
}

// destroy kills a sandbox and returns when it is proven that nothing is left.
func (b *Bench) destroy(ctx context.Context, id api.SandboxID) error {
	_, proof, err := b.Sandboxes.Kill(context.WithoutCancel(ctx), id)
	if err == nil && proof.Left != 0 {
		err = api.Errorf(api.KindInternal, "sandbox %s: %d processes are left after its end", id, proof.Left)
	}
	return err
}

// alone creates and destroys a sandbox when nothing else is in progress, and returns the time
// of birth.
func (b *Bench) alone(ctx context.Context, w way, backend string) (time.Duration, error) {
	if err := quiet(ctx, b.Sandboxes); err != nil {
		return 0, err
	}
	id, first, err := b.birth(ctx, w, backend)
	if err != nil {
		return 0, err
	}
	return first, b.destroy(ctx, id)
}

// whole is a sandbox's whole life: create, run, destroy.
func (b *Bench) whole(ctx context.Context, w way, backend string) error {
	id, _, err := b.birth(ctx, w, backend)
	if err != nil {
		return err
	}
	return b.destroy(ctx, id)
}

// kill ends a sandbox whose time does not count.
func (b *Bench) kill(id api.SandboxID) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	_, _, _ = b.Sandboxes.Kill(ctx, id) // its deadline is the second chance
}
