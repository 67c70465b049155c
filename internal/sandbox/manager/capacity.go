package manager

import (
	"context"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/life"
)

// admission returns the admission of the host of a backend; nil if there is none.
func (c *core) admission(backend string) sandbox.Admission {
	if c.cfg.Admission == nil {
		return nil
	}
	return c.cfg.Admission(backend)
}

// tryCapacity takes what a planned sandbox needs of the host if that can be had at once.
// Without an Admission there is always capacity, and nothing to release.
func (c *core) tryCapacity(ctx context.Context, req api.CreateSandbox, p *plan) (release func(), ok bool) {
	a := c.admission(p.backend.Name())
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

// takeCapacity takes what a sandbox needs of its host, in its turn. queued, which may be
// nil, is called before the first event of a wait. After an error nothing is held.
func (c *core) takeCapacity(ctx context.Context, l *live, queued func() error) (err error) {
	a := c.admission(l.backend.Name())
	if a == nil || l.release != nil {
		return nil
	}
	n := l.need(ctx)
	if l.release = a.Try(n); l.release != nil {
		return nil
	}
	ctx, over := c.step(ctx, sandbox.Step{Op: sandbox.OpAdmit, Sandbox: l.id})
	defer func() { over(sandbox.Outcome{Isolation: l.backend.Name(), Err: err}) }()
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	defer l.wait.Set(cancel)()
	var unstored error
	waited := false
	release, err := a.Admit(waiting, n, func(e api.WaitingEvent) {
		if !waited && queued != nil {
			if unstored = queued(); unstored != nil {
				cancel()
				return
			}
		}
		waited = true
		c.event(l.id, api.EventWaiting, e)
	})
	switch {
	case unstored != nil:
		err = unstored
	case l.State() == life.Ending:
		err = api.Errorf(api.KindUnavailable, "sandbox %s was stopped while it waited for capacity: %s", l.id, l.Reason())
	case err != nil && waiting.Err() != nil && ctx.Err() == nil:
		err = api.Errorf(api.KindUnavailable, "sandbox %s was stopped while it waited for capacity", l.id)
	case err == nil && waited: // its time begins now
		row := l.Row()
		l.Expire(row.ExpiresAt.Sub(row.CreatedAt))
	}
	l.release = release
	if err != nil {
		l.releaseCapacity()
	}
	return err
}
