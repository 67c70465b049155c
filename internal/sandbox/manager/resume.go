package manager

import (
	"context"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/life"
)

// nothingRan is the proof of the end of a sandbox that was paused to disk.
const nothingRan = "the sandbox was paused to disk; nothing was running"

// take registers a sandbox that is paused to disk, in a state that excludes other callers. It fails
// with KindConflict if another caller was faster.
func (c saves) take(ctx context.Context, row api.Sandbox, b sandbox.Backend, state life.State) (*live, error) {
	l := c.newLive(row, b, state)
	if err := c.register(l, false); err != nil {
		return nil, err
	}
	now, err := c.cfg.Rows.Sandbox(ctx, l.id)
	switch {
	case err != nil:
	case now.State.Final():
		err = ended(now)
	case !suspended(now) || now.Owner != c.cfg.Owner:
		err = api.Errorf(api.KindConflict, "sandbox %s belongs to another daemon", l.id)
	default:
		l.Edit(func(row *api.Sandbox) { *row = now })
		return l, nil
	}
	c.untake(l)
	return nil, err
}

// untake gives up a sandbox that is paused to disk still.
func (c saves) untake(l *live) {
	step := l.Fire(life.BootFailed, nil)
	_ = c.do(context.Background(), l, step, note{})
}

// resumeFromDisk resumes a sandbox that is paused to disk. Until its row says running, the snapshot
// counts: a machine that a dead daemon left is not used. The sandbox lives for ttl, or for its
// remaining time if ttl is 0.
func (c saves) resumeFromDisk(ctx context.Context, row api.Sandbox, ttl time.Duration) (api.Sandbox, error) {
	store, err := c.snapshots()
	if err != nil {
		return row, err
	}
	b, _, _, err := c.Choose(ctx, row.Isolation)
	if err != nil {
		return row, err
	}
	l, err := c.take(ctx, row, b, life.Restoring)
	if err != nil {
		return row, err
	}
	row = l.Row()
	s, err := store.Snapshot(ctx, row.Snapshot)
	if err == nil && s.State == api.SnapshotReady {
		adopted := l.commands.Adopting()
		defer adopted()
		if err = c.resumeFrom(ctx, l, s, ttl); err == nil {
			if _, err := store.Remove(context.WithoutCancel(ctx), s.ID, "sandbox "+string(l.id)+" was resumed"); err != nil {
				c.log.Error("the snapshot of a pause was not removed", "sandbox", l.id, "error", err)
			}
			c.run.Adopt(ctx, l.commands, func(row api.Exec) time.Duration {
				return time.Duration(row.TimeoutMS)*time.Millisecond - max(s.CreatedAt.Sub(row.StartedAt), 0)
			})
			return l.Row(), nil
		}
		c.untake(l)
		// The first look at all its bytes may have found it broken.
		now, nerr := store.Snapshot(context.WithoutCancel(ctx), s.ID)
		if nerr != nil || !now.State.Final() {
			return row, err
		}
		// A kill removes the snapshot too, after it ended the sandbox.
		if kept, kerr := c.cfg.Rows.Sandbox(context.WithoutCancel(ctx), row.ID); kerr != nil || kept.State.Final() {
			return row, err
		}
		s = now
	} else {
		c.untake(l)
		if err != nil && api.KindOf(err) != api.KindNotFound {
			return row, err
		}
	}
	reason := "the snapshot of the paused sandbox is " + string(s.State) + because(s.Reason)
	if s.State == "" {
		reason = "the snapshot of the paused sandbox is missing"
	}
	if err := c.markLost(context.WithoutCancel(ctx), row, reason, api.Proof{How: nothingRan}); err != nil {
		return row, err
	}
	return row, api.Errorf(api.KindUnavailable, "sandbox %s was lost: %s", l.id, reason)
}

// resumeFrom starts a sandbox from the snapshot that it is paused in.
func (c saves) resumeFrom(ctx context.Context, l *live, s api.Snapshot, ttl time.Duration) error {
	row := l.Row()
	if err := c.restorable(ctx, l.backend, s); err != nil {
		return err
	}
	if err := envReadable(row); err != nil {
		return err
	}
	if s.Kind == api.SnapshotFiles {
		// A daemon that died in the pause may not have recorded their end.
		if err := c.run.EndAll(ctx, row.ID, api.CauseKilled); err != nil {
			return err
		}
	}
	if ttl == 0 {
		ttl = leftOf(row, s)
	}
	l.layers = layersOf(s)
	if err := c.takeCapacity(ctx, l, nil); err != nil {
		return err
	}
	restoring, over := c.step(ctx, sandbox.Step{Op: sandbox.OpRestore, Sandbox: l.id})
	machine, err := c.restoreAndClaim(restoring, l, func(ctx context.Context, spec sandbox.Spec) (sandbox.Machine, error) {
		return c.restore(ctx, s.ID, spec)
	})
	over(sandbox.Outcome{Isolation: row.Isolation, Err: err})
	if err == nil {
		err = c.open()
	}
	if err == nil {
		l.boot(machine, nil)
		err = l.egress.Open(ctx)
	}
	if err == nil {
		l.Edit(func(row *api.Sandbox) { row.State, row.Snapshot = api.SandboxRunning, s.Parent })
		l.Expire(ttl)
		if err = c.store(ctx, l); err == nil {
			return c.do(ctx, l, l.Fire(life.Boot, nil), note{})
		}
		l.Edit(func(r *api.Sandbox) { *r = row })
	}
	if machine != nil {
		killCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killTimeout)
		defer cancel()
		if _, kerr := machine.Kill(killCtx); kerr != nil {
			c.log.Error("cannot kill a sandbox that failed to resume", "sandbox", l.id, "error", kerr)
		}
	}
	return err
}

// killSuspended ends a sandbox that is paused to disk.
func (c saves) killSuspended(ctx context.Context, row api.Sandbox) (api.Sandbox, api.Proof, error) {
	proof := api.Proof{How: nothingRan}
	l, err := c.take(ctx, row, nil, life.Restoring)
	if err != nil {
		return row, proof, err
	}
	row = l.Row()
	if err := c.run.EndAll(ctx, row.ID, api.CauseKilled); err != nil {
		c.untake(l)
		return row, proof, err
	}
	if err := c.finish(l, life.End, api.CauseKilled, &proof); err != nil {
		return row, proof, err
	}
	store, err := c.snapshots()
	if err == nil {
		_, err = store.Remove(context.WithoutCancel(ctx), row.Snapshot, "sandbox "+string(row.ID)+" was killed")
	}
	if api.KindOf(err) == api.KindNotFound {
		err = nil
	}
	return l.Row(), proof, err
}

// leftOf returns the remaining time of a sandbox that is paused to disk: what it had left when it
// was paused. If it was paused at its deadline, it gets the default of a new sandbox.
func leftOf(row api.Sandbox, s api.Snapshot) time.Duration {
	left := row.ExpiresAt.Sub(s.CreatedAt)
	if left < time.Second && row.OnExpiry.Pauses() {
		return api.DefaultTTL
	}
	return min(max(left, time.Second), api.MaxTTL)
}
