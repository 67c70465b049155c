package envd

import (
	"context"
	"errors"
	"sync"
	"time"

	"hortus.dev/api"
)

const (
	// maxWaiting bounds the requests that wait for one sandbox to wake.
	maxWaiting = 128
	// wakeTimeout bounds a wake, and so how long they wait.
	wakeTimeout = 2 * time.Minute
)

var (
	errGone    = errors.New("the sandbox was not found")
	errCrowded = errors.New("too many requests are waiting for the sandbox")
)

// wakes are those under way.
type wakes struct {
	mu sync.Mutex
	by map[api.SandboxID]*wake
}

// wake is one, which the first request that needs it does for all.
type wake struct {
	done    chan struct{}
	waiting int
	err     error // set before done is closed
}

// running returns a sandbox that serves now. One that is paused and wants that is
// woken first; its request waits. The error is errGone, errCrowded, or the context's.
func (d *Server) running(ctx context.Context, id api.SandboxID) (api.Sandbox, error) {
	for range 3 {
		row, err := d.cfg.Sandboxes.Get(ctx, id)
		switch {
		case ctx.Err() != nil:
			return row, ctx.Err()
		case err == nil && row.State == api.SandboxRunning:
			return row, nil
		case err != nil || row.State != api.SandboxPaused || !row.AutoResume:
			return row, errGone
		}
		if err := d.wake(ctx, id); err != nil {
			return row, err
		}
	}
	return api.Sandbox{}, errGone
}

// wake waits until the sandbox was woken, by this request where no other does it.
func (d *Server) wake(ctx context.Context, id api.SandboxID) error {
	d.wakes.mu.Lock()
	if w := d.wakes.by[id]; w != nil {
		if w.waiting >= maxWaiting {
			d.wakes.mu.Unlock()
			return errCrowded
		}
		w.waiting++
		d.wakes.mu.Unlock()
		defer d.wakes.left(w)
		select {
		case <-w.done:
			return w.err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	w := &wake{done: make(chan struct{})}
	if d.wakes.by == nil {
		d.wakes.by = map[api.SandboxID]*wake{}
	}
	d.wakes.by[id] = w
	d.wakes.mu.Unlock()
	// Others wait for this one: it is done even if its own client leaves.
	wakeCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), wakeTimeout)
	defer cancel()
	w.err = d.resume(wakeCtx, id)
	d.wakes.mu.Lock()
	delete(d.wakes.by, id)
	d.wakes.mu.Unlock()
	close(w.done)
	return w.err
}

// left counts one out who waited.
func (ws *wakes) left(w *wake) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w.waiting--
}

// resume wakes a sandbox, and sees to it that it stays for a while: what is left of
// the life of one that was paused at its deadline is nothing.
func (d *Server) resume(ctx context.Context, id api.SandboxID) error {
	if err := d.cfg.Sandboxes.Wake(ctx, id); err != nil {
		d.log.Warn("a sandbox could not be resumed for a request", "sandbox", id, "error", err)
		return errGone
	}
	return nil
}

// retryResumed repeats what failed because a sandbox that wakes when it is asked
// for was paused beneath it.
func retryResumed[T any](ctx context.Context, d *Server, id api.SandboxID, do func() (T, error)) (T, error) {
	v, err := do()
	if k := api.KindOf(err); err == nil || k != api.KindUnavailable && k != api.KindConflict {
		return v, err
	}
	row, gerr := d.cfg.Sandboxes.Get(ctx, id)
	if gerr != nil || row.State != api.SandboxPaused || !row.AutoResume {
		return v, err
	}
	if _, rerr := d.running(ctx, id); rerr != nil {
		return v, err
	}
	return do()
}
