package manager

import (
	"context"
	"errors"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/life"
)

const (
	// killTimeout bounds a kill with proof.
	killTimeout = 20 * time.Second
	// stopped is the reason of sandboxes that their manager ends when it closes.
	stopped = "daemon stopped"
)

// errSuspended reports that a sandbox was paused to disk before it could be ended.
var errSuspended = errors.New("the sandbox is paused to disk")

// end kills a sandbox for a reason and stores its end. A second call waits for the first and
// returns the same proof. If the sandbox is being paused to disk, end waits and returns
// errSuspended without killing it.
func (c *core) end(ctx context.Context, l *live, reason string) (api.Proof, error) {
	for {
		state, changed := l.Stand()
		step := l.End(life.Kill, reason)
		switch {
		case step.Answer == life.Wait:
			if reason != api.CauseKilled && state == life.Suspending {
				step.Do = nil // a deadline does not give up the pause
			}
			_ = c.do(ctx, l, step, note{})
			if err := await(ctx, changed); err != nil {
				return api.Proof{}, err
			}
			continue
		case step.Answer == life.Refuse:
			return api.Proof{}, api.Errorf(api.KindConflict, "sandbox %s is still starting", l.id)
		case state == life.Suspended:
			<-l.ended
			return api.Proof{}, errSuspended
		case state == life.Left:
			return api.Proof{}, api.Errorf(api.KindConflict, "sandbox %s now belongs to the next daemon", l.id)
		}
		_ = c.do(ctx, l, step, note{})
		break
	}
	if l.machine == nil {
		<-l.ended
		return api.Proof{How: "the sandbox waited for capacity; nothing was started"}, nil
	}
	killCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killTimeout)
	defer cancel()
	killCtx, over := c.step(killCtx, sandbox.Step{Op: sandbox.OpKill, Sandbox: l.id})
	proof, err := l.machine.Kill(killCtx)
	over(sandbox.Outcome{Isolation: l.backend.Name(), Err: err})
	if err != nil {
		return proof, api.Errorf(api.KindOf(err), "kill sandbox %s: %w", l.id, err)
	}
	_ = c.finish(l, life.End, l.Reason(), &proof)
	return proof, nil
}

// finish stores the end of a sandbox of which nothing is left. If another goroutine does so, it
// returns when that is done. After an error, which has been logged, the end is not stored.
func (c *core) finish(l *live, e life.Event, reason string, proof *api.Proof) error {
	step := l.Fire(e, func(row *api.Sandbox) { row.Reason, row.EndedAt = reason, c.now().UTC() })
	if step.Answer != life.Go {
		<-l.ended
		return nil
	}
	return c.do(context.Background(), l, step, note{reason: reason, proof: proof})
}

// lost stores the end of a sandbox whose guest exited without a request.
func (c *core) lost(l *live, reason string) {
	// The guest has exited; Kill frees the rest and proves that nothing is left.
	ctx, cancel := context.WithTimeout(context.Background(), killTimeout)
	defer cancel()
	proof, err := l.machine.Kill(ctx)
	if err != nil {
		c.log.Error("cannot clean up lost sandbox", "sandbox", l.id, "error", err)
		reason += "; cleanup failed: " + err.Error()
	}
	e := life.Lose
	switch reason {
	case api.CauseMemory, api.CauseDisk, api.CauseQuota, api.CauseFull:
		e = life.End // a limit ended it
	}
	_ = c.finish(l, e, reason, &proof)
}

// failed stores that a sandbox could not start. machine is what was started of it, or nil.
func (c *core) failed(l *live, reason string, machine sandbox.Machine) {
	var proof *api.Proof
	if machine != nil {
		ctx, cancel := context.WithTimeout(context.Background(), killTimeout)
		defer cancel()
		p, err := machine.Kill(ctx)
		if err != nil {
			c.log.Error("cannot kill a sandbox that failed to start", "sandbox", l.id, "error", err)
		} else {
			proof = &p
		}
	}
	_ = c.finish(l, life.BootFailed, reason, proof)
}

// Kill ends a sandbox and proves that nothing of it is left. If it has ended already, that is not
// an error. If it is being resumed from disk, Kill waits for that.
func (m *Manager) Kill(ctx context.Context, id api.SandboxID) (api.Sandbox, api.Proof, error) {
	for {
		l, row, err := m.find(ctx, id)
		switch {
		case err != nil:
			return row, api.Proof{}, err
		case l != nil:
			proof, err := m.end(ctx, l, api.CauseKilled)
			if err == errSuspended {
				continue
			}
			return l.Row(), proof, err
		case row.State.Final():
			return row, api.Proof{How: "the sandbox had already ended"}, nil
		case !suspended(row):
			return row, api.Proof{}, api.Errorf(api.KindConflict, "sandbox %s belongs to another daemon", id)
		}
		row, proof, err := m.killSuspended(ctx, row)
		if _, taken := m.lookup(id); api.KindOf(err) != api.KindConflict || !taken {
			return row, proof, err
		}
	}
}

// Close kills every sandbox, except those that are paused to disk, and waits for everything
// that the manager started. The error joins what could not be killed.
func (m *Manager) Close(ctx context.Context) error {
	all := m.close()
	m.pool.Close()
	errs := make([]error, len(all))
	kills := make(chan struct{})
	for i, l := range all {
		go func() {
			defer func() { kills <- struct{}{} }()
			if _, err := m.end(ctx, l, stopped); err != errSuspended {
				errs[i] = err
			}
		}()
	}
	for range all {
		<-kills
	}
	m.cancel()
	m.wg.Wait()
	return errors.Join(errs...)
}
