package jail

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail/image"
	"hortus.dev/internal/backend/jail/keeper"
	"hortus.dev/internal/backend/jail/rundir"
)

const (
	// thawTimeout is the maximum wait for sandboxes to release memory.
	thawTimeout = 5 * time.Second
	// A sandbox that did not release memory is asked again, thawTries times at most, after a time
	// that begins with thawPause and doubles.
	thawTries = 10
	thawPause = 100 * time.Millisecond
)

// thaws are the sandboxes that are asked again to release memory.
type thaws struct {
	mu     sync.Mutex
	asked  map[api.SandboxID]bool
	closed chan struct{} // by stop; nil while nobody was asked
	over   bool          // after stop

	// tell has a kernel make a call. It is image.Memory.Call, but in tests.
	tell func(ctx context.Context, m image.Memory, c keeper.Call) error
}

// start starts ask in a group, unless the sandbox is asked already or stop was called.
func (t *thaws) start(group *sync.WaitGroup, id api.SandboxID, ask func(stopped <-chan struct{})) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over || t.asked[id] {
		return
	}
	if t.closed == nil {
		t.asked, t.closed = map[api.SandboxID]bool{}, make(chan struct{})
	}
	t.asked[id] = true
	stopped := t.closed
	group.Go(func() {
		ask(stopped)
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.asked, id)
	})
}

// stop ends the asking. The next daemon asks again.
func (t *thaws) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed != nil && !t.over {
		close(t.closed)
	}
	t.over = true
}

// thawOwn has a sandbox release what it holds for others that are gone. What ended while the
// sandbox was paused, or while there was no daemon, is still to be released.
func (b *Backend) thawOwn(ctx context.Context, id api.SandboxID) {
	if holders := b.holds(id); len(holders) > 0 {
		b.thaw(ctx, holders)
	}
}

// holds are the names under which a sandbox holds memory for others.
func (b *Backend) holds(id api.SandboxID) map[string]api.SandboxID {
	names, err := image.Frozen(b.basesDir(id))
	if err != nil {
		b.log.Warn("memory of forks stays in use", "sandbox", id, "err", err)
	}
	holders := map[string]api.SandboxID{}
	for _, name := range names {
		holders[name] = id
	}
	return holders
}

// thaw tells sandboxes that nobody refers any more to memory that they hold under names, as far as
// that is so. One that is paused learns when it resumes, and one that fails is asked again in the
// background.
func (b *Backend) thaw(ctx context.Context, holders map[string]api.SandboxID) {
	for id, err := range b.tryThaw(ctx, holders) {
		b.log.Info("a sandbox did not release memory of a fork; it is asked again", "sandbox", id, "err", err)
		b.thawLater(id)
	}
}

// tryThaw is thaw without another try. It returns who failed.
func (b *Backend) tryThaw(ctx context.Context, holders map[string]api.SandboxID) map[api.SandboxID]error {
	ctx, cancel := context.WithTimeout(ctx, thawTimeout)
	defer cancel()
	failed := map[api.SandboxID]error{}
	for name, id := range b.unused(holders) {
		pid, ok, err := rundir.ReadPID(b.rundir(id))
		if err != nil || !ok || !pid.Alive() {
			continue // it has ended
		}
		if b.isFrozen(id) {
			continue
		}
		m := image.Memory{ID: id, Dir: b.rundir(id), PID: pid.PID, Cause: func() string { return "" }}
		if err = b.thaws.tell(ctx, m, b.cfg.Kernel.Thaw(name)); err == nil {
			err = image.ForgetFrozen(b.basesDir(id), name)
		}
		if err != nil {
			failed[id] = errors.Join(failed[id], err)
		}
	}
	return failed
}

// thawLater asks a sandbox again, in the background. Close waits for it.
func (b *Backend) thawLater(id api.SandboxID) {
	b.thaws.start(&b.machines, id, func(stopped <-chan struct{}) {
		var err error
		pause := thawPause
		for range thawTries {
			select {
			case <-stopped:
				return
			case <-time.After(pause):
			}
			pause *= 2
			failed := b.tryThaw(context.Background(), b.holds(id))
			if len(failed) == 0 {
				return
			}
			err = errors.Join(slices.Collect(maps.Values(failed))...)
		}
		b.log.Warn("a sandbox did not release memory of a fork; it is asked again when it is paused and resumed, or by the next daemon", "sandbox", id, "err", err)
	})
}
