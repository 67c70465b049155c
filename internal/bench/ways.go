package bench

import (
	"context"
	"errors"
	"time"

	"hortus.dev/api"
)

// way is one way of coming by a sandbox. Its name ends the names of its rows.
type way struct {
	name string
	// request asks for such a sandbox of a backend.
	request func(backend string) api.CreateSandbox
	// ready, where there is one, is waited for before a sample of that many
	// sandboxes and outside of its clock: a pool fills up there.
	ready func(ctx context.Context, b *Bench, backend string, sandboxes int) error
}

// ways are taken in turn by every measurement that creates sandboxes.
var ways = []way{
	{name: "cold", request: func(backend string) api.CreateSandbox { return api.CreateSandbox{Isolation: backend} }},
}

// await waits until a sample may begin.
func (w way) await(ctx context.Context, b *Bench, backend string, sandboxes int) error {
	if w.ready == nil {
		return nil
	}
	return w.ready(ctx, b, backend, sandboxes)
}

// birth creates a sandbox and runs its first command. The time is from the call
// of Create to the end of that command. After an error nothing is left.
func (b *Bench) birth(ctx context.Context, w way, backend string) (api.SandboxID, time.Duration, error) {
	start := time.Now()
	s, err := b.Sandboxes.Create(ctx, w.request(backend))
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
