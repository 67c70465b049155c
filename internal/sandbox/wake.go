package sandbox

import (
	"context"
	"time"

	"hortus.dev/api"
)

// parkedRow finds a sandbox that is paused to disk, and keeps others from it until
// free is called.
func (m *Manager) parkedRow(ctx context.Context, id api.SandboxID) (row api.Sandbox, free func(), err error) {
	m.mu.Lock()
	_, busy := m.waking[id]
	over := make(chan struct{})
	if !busy {
		m.waking[id] = over
	}
	m.mu.Unlock()
	if busy {
		return row, nil, api.Errorf(api.KindConflict, "sandbox %s is being resumed or ended", id)
	}
	free = func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.waking, id)
		m.woken++
		close(over)
	}
	row, err = m.cfg.Rows.Sandbox(ctx, id)
	switch {
	case err != nil:
	case row.State.Final():
		err = api.Errorf(api.KindUnavailable, "sandbox %s is %s%s", id, row.State, because(row.Reason))
	case row.State != api.SandboxPaused || row.Snapshot == "" || row.Owner != m.cfg.Owner:
		err = api.Errorf(api.KindConflict, "sandbox %s belongs to another daemon", id)
	}
	if err != nil {
		free()
		return row, nil, err
	}
	return row, free, nil
}

// wake resumes a sandbox that is paused to disk. Until its row says running, the
// snapshot is what counts: a machine that a dead daemon left is not gone on with. It
// lives for ttl, or for what it had left where that is 0.
func (m *Manager) wake(ctx context.Context, id api.SandboxID, ttl time.Duration) (api.Sandbox, error) {
	row, free, err := m.parkedRow(ctx, id)
	if err != nil {
		return row, err
	}
	defer free()
	store, err := m.snapshots()
	if err != nil {
		return row, err
	}
	s, err := store.Snapshot(ctx, row.Snapshot)
	if err == nil && s.State == api.SnapshotReady {
		l, err := m.wakeFrom(ctx, row, s, ttl)
		if err == nil {
			row = l.snapshot()
			if _, err := store.Remove(context.WithoutCancel(ctx), s.ID, "sandbox "+string(id)+" went on"); err != nil {
				m.log.Error("the snapshot of a pause is not removed", "sandbox", id, "error", err)
			}
			m.begin(l)
			m.adoptExecs(ctx, l, s)
			return row, nil
		}
		// The first look at all its bytes may have found it broken.
		now, nerr := store.Snapshot(context.WithoutCancel(ctx), s.ID)
		if nerr != nil || !now.State.Final() {
			return row, err
		}
		s = now
	} else if err != nil && api.KindOf(err) != api.KindNotFound {
		return row, err
	}
	reason := "the snapshot that it was paused in is " + string(s.State) + because(s.Reason)
	if s.State == "" {
		reason = "the snapshot that it was paused in is not there"
	}
	err = m.markLost(context.WithoutCancel(ctx), row, reason, api.Proof{How: "it was paused to disk: nothing of it ran"})
	if err != nil {
		return row, err
	}
	return row, api.Errorf(api.KindUnavailable, "sandbox %s is lost: %s", id, reason)
}

// wakeFrom starts a paused sandbox from its snapshot.
func (m *Manager) wakeFrom(ctx context.Context, row api.Sandbox, s api.Snapshot, ttl time.Duration) (_ *live, err error) {
	b, _, _, err := m.Choose(ctx, row.Isolation)
	if err != nil {
		return nil, err
	}
	if err := m.restorable(ctx, b, s); err != nil {
		return nil, err
	}
	if err := envReadable(row); err != nil {
		return nil, err
	}
	if s.Kind == api.SnapshotFiles {
		// A daemon that died in the pause may not have recorded their end.
		if err := m.closeExecs(ctx, row.ID, api.CauseKilled); err != nil {
			return nil, err
		}
	}
	if ttl == 0 {
		ttl = leftOf(row, s)
	}
	l := newLive(row, b)
	l.layers = layersOf(s)
	if err := m.makeRoom(ctx, l, nil); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			l.letGo()
		}
	}()
	restoring, end := m.step(ctx, Step{Op: OpRestore, Sandbox: row.ID})
	machine, err := m.restore(restoring, s.ID, l.spec())
	end(Outcome{Isolation: row.Isolation, Err: err})
	if err != nil {
		return nil, err
	}
	fail := func(err error) (*live, error) {
		killCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killTimeout)
		defer cancel()
		if _, kerr := machine.Kill(killCtx); kerr != nil {
			m.log.Error("a sandbox that could not be resumed was not killed", "sandbox", row.ID, "error", kerr)
		}
		return nil, err
	}
	if err := machine.Claim(ctx, row.Env); err != nil {
		return fail(err)
	}
	l.run(machine)
	l.row.State, l.row.Snapshot = api.SandboxRunning, s.Parent
	m.expireIn(l, ttl)
	if err := m.admit(l); err != nil {
		return fail(err)
	}
	if err := m.cfg.Rows.UpdateSandbox(context.WithoutCancel(ctx), l.snapshot()); err != nil {
		m.forget(l)
		return fail(err)
	}
	return l, nil
}

// adoptExecs takes up the records of the commands that went on with a sandbox.
func (m *Manager) adoptExecs(ctx context.Context, l *live, s api.Snapshot) {
	m.takeUp(ctx, l, func(row api.Exec) time.Duration {
		return time.Duration(row.TimeoutMS)*time.Millisecond - max(s.CreatedAt.Sub(row.StartedAt), 0)
	})
}

// takeUp reads on for the records of the commands that run in a sandbox, each for the
// time that bound says at the most where it has a timeout. It gives their number.
func (m *Manager) takeUp(ctx context.Context, l *live, bound func(api.Exec) time.Duration) (n int) {
	rows, err := m.cfg.Rows.ListExecs(context.WithoutCancel(ctx), l.row.ID)
	if err != nil {
		m.log.Error("commands of a resumed sandbox are not known", "sandbox", l.row.ID, "error", err)
	}
	for _, row := range rows {
		if row.State != api.ExecRunning {
			continue
		}
		x := &running{live: l, row: row, at: row.OutputBytes, timeout: time.Duration(row.TimeoutMS) * time.Millisecond, stored: make(chan struct{})}
		x.ctx, x.cancel = context.WithCancel(m.ctx)
		if x.timeout > 0 {
			x.expect(bound(row) + graceAfterTimeout)
		}
		l.mu.Lock()
		l.execs[row.ID] = x
		l.mu.Unlock()
		m.wg.Go(func() {
			if err := x.comeBack(); err != nil {
				_ = x.cut(m, err)
				return
			}
			x.readOn(m)
		})
		n++
	}
	return n
}

// killParked ends a sandbox that is paused to disk.
func (m *Manager) killParked(ctx context.Context, id api.SandboxID) (api.Sandbox, api.Proof, error) {
	proof := api.Proof{How: "it was paused to disk: nothing of it ran"}
	row, free, err := m.parkedRow(ctx, id)
	if err != nil {
		return row, proof, err
	}
	defer free()
	s := row.Snapshot
	if err := m.closeExecs(ctx, id, api.CauseKilled); err != nil {
		return row, proof, err
	}
	row.State, row.Reason, row.EndedAt = api.SandboxEnded, api.CauseKilled, m.now().UTC()
	if err := m.cfg.Rows.UpdateSandbox(ctx, row); err != nil {
		return row, proof, err
	}
	m.event(id, api.EventSandboxState, api.SandboxStateEvent{State: row.State, Reason: row.Reason, Proof: &proof})
	store, err := m.snapshots()
	if err == nil {
		_, err = store.Remove(context.WithoutCancel(ctx), s, "sandbox "+string(id)+" was killed")
	}
	if api.KindOf(err) == api.KindNotFound {
		err = nil
	}
	return row, proof, err
}

func pausedToDisk(id api.SandboxID) error {
	return api.Errorf(api.KindConflict, "sandbox %s is paused to disk", id).WithHint("resume it first: hortus sandbox resume %s", id)
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + reason + ")"
}
