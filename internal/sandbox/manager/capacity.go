package manager

import (
	"context"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/life"
)

// capacity takes what sandboxes need of their hosts.
type capacity struct {
	// admission returns that of the host of a backend, or nil. It may be nil itself.
	admission func(backend string) sandbox.Admission
	facts     facts
	watcher   sandbox.Watcher
}

// of returns the admission of the host of a backend; nil if there is none.
func (c *capacity) of(backend string) sandbox.Admission {
	if c.admission == nil {
		return nil
	}
	return c.admission(backend)
}

// hold counts a sandbox that was there before this daemon, whatever is free. release frees it; it is nil
// without an Admission.
func (c *capacity) hold(in *instance, backend string) (release func()) {
	if a := c.of(backend); a != nil {
		return a.Hold(in.need(context.Background()))
	}
	return nil
}

// try takes what a planned sandbox needs of the host if that can be had at once.
// Without an Admission there is always capacity, and nothing to release.
func (c *capacity) try(ctx context.Context, req api.CreateSandbox, p *plan) (release func(), ok bool) {
	a := c.of(p.backend.Name())
	if a == nil {
		return nil, true
	}
	n := sandbox.Need{Account: req.Account, Memory: p.spec.Limits.MemoryBytes, CPUs: p.spec.Limits.CPUs}
	if n.Account == "" {
		n.Account = api.PrincipalOf(ctx).Account
	}
	release = a.Try(n)
	return release, release != nil
}

// take takes what a sandbox needs of its host, in its turn. queued, which may be
// nil, is called before the first event of a wait. After an error nothing is held.
func (c *capacity) take(ctx context.Context, in *instance, queued func() error) (err error) {
	a := c.of(in.backend.Name())
	if a == nil || in.release != nil {
		return nil
	}
	n := in.need(ctx)
	if in.release = a.Try(n); in.release != nil {
		return nil
	}
	ctx, over := c.watcher.Begin(ctx, sandbox.Step{Op: sandbox.OpAdmit, Sandbox: in.id})
	defer func() { over(sandbox.Outcome{Isolation: in.backend.Name(), Err: err}) }()
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	defer in.wait.Set(cancel)()
	defer in.waiting.Store(nil)
	var unstored error
	waited, told, cause := false, api.WaitToldOf(ctx), api.WaitCause("")
	release, err := a.Admit(waiting, n, func(e api.WaitingEvent) {
		if !waited && queued != nil {
			if unstored = queued(); unstored != nil {
				cancel()
				return
			}
		}
		waited = true
		in.waiting.Store(&e)
		c.facts.append(in.id, api.EventWaiting, e)
		if told != nil && e.Cause != cause {
			told(e)
		}
		cause = e.Cause
	})
	switch {
	case unstored != nil:
		err = unstored
	case in.State() == life.Ending:
		err = api.Errorf(api.KindUnavailable, "sandbox %s was stopped while it waited for capacity: %s", in.id, in.Reason())
	case err != nil && waiting.Err() != nil && ctx.Err() == nil:
		err = api.Errorf(api.KindUnavailable, "sandbox %s was stopped while it waited for capacity", in.id)
	case err == nil && waited: // its time begins now
		row := in.Row()
		in.Expire(row.ExpiresAt.Sub(row.CreatedAt))
	}
	in.release = release
	if err != nil {
		in.releaseCapacity()
	}
	return err
}
