package sandbox

import (
	"context"
	"errors"
	"time"

	"hortus.dev/api"
)

// saveTimeout bounds a pause to disk once the caller is no more asked.
const saveTimeout = 10 * time.Minute

// stopped is the reason of sandboxes that their manager ends when it closes.
const stopped = "daemon stopped"

// errParked says that a sandbox was paused to disk before it could be ended.
var errParked = errors.New("the sandbox is paused to disk")

// park is a pause to disk on its way.
type park struct {
	cancel context.CancelFunc // gives it up
	done   chan struct{}      // closed when it is decided
}

// isParked says whether the sandbox was paused to disk, and is no more live here.
func (l *live) isParked() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.parked
}

// awaitPark waits for a pause to disk that is on its way, and says whether the
// sandbox was paused.
func (l *live) awaitPark() bool {
	l.mu.Lock()
	p := l.park
	l.mu.Unlock()
	if p != nil {
		<-p.done
	}
	return l.isParked()
}

// PauseToDisk saves a running sandbox and lets go of it: nothing of it runs, no
// memory is held and its deadline stands still. It outlives the daemon and the
// run of the machine, and goes on under the same id with Resume. Commands go on
// with it; their records stay running.
//
// Errors: KindUnsupported, naming the capability, where memory cannot be saved;
// those of Snapshot. The sandbox goes on after one, unless its reason says
// otherwise.
func (m *Manager) PauseToDisk(ctx context.Context, id api.SandboxID) (api.Sandbox, error) {
	return m.pauseToDisk(ctx, id, false)
}

// PauseFiles is PauseToDisk of what the sandbox wrote alone. Its commands end with
// it: what goes on has none of its processes.
//
// Errors: KindUnsupported where files cannot be saved without memory; those of
// Snapshot.
func (m *Manager) PauseFiles(ctx context.Context, id api.SandboxID) (api.Sandbox, error) {
	return m.pauseToDisk(ctx, id, true)
}

func (m *Manager) pauseToDisk(ctx context.Context, id api.SandboxID, files bool) (api.Sandbox, error) {
	store, err := m.snapshots()
	if err != nil {
		return api.Sandbox{}, err
	}
	l, err := m.savable(ctx, id)
	if err != nil {
		return api.Sandbox{}, err
	}
	if a, ok := m.probes.report(ctx, l.backend).Has(api.CapCheckpoint); !ok && !files {
		return api.Sandbox{}, api.Errorf(api.KindUnsupported, "the %s backend cannot save memory on this host, which a pause to disk needs: %s (capability %s)",
			l.backend.Name(), a.Reason, api.CapCheckpoint).WithHint("take a snapshot of its files instead, or pause it in memory")
	}
	saveCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	p := &park{cancel: cancel, done: make(chan struct{})}
	l.mu.Lock()
	if l.settled || l.reason != "" || l.park != nil || l.row.State != api.SandboxRunning {
		defer l.mu.Unlock()
		return l.row, api.Errorf(api.KindConflict, "sandbox %s is ending, or being paused already", id)
	}
	l.park = p
	l.mu.Unlock()
	row, err := m.parkLive(ctx, saveCtx, l, store, files)
	l.mu.Lock()
	l.park = nil
	l.mu.Unlock()
	close(p.done)
	return row, err
}

// parkLive is PauseToDisk of a sandbox that is marked for it.
func (m *Manager) parkLive(ctx, saveCtx context.Context, l *live, store Snapshots, files bool) (api.Sandbox, error) {
	s := l.described()
	s.Paused = true
	before := l.snapshot()
	// The row says what is meant before anything is done: whoever finds it after
	// the daemon's death and a whole snapshot of that id finds a paused sandbox.
	meant, err := m.mean(ctx, l, s.ID)
	if err != nil {
		return before, err
	}
	on, err := l.quiet(saveCtx)
	if err != nil {
		return m.unmean(l, before), err
	}
	gone := false
	// Once the machine is gone nobody is asked whether to go on.
	storeCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTimeout)
	defer cancel()
	saved := Saved{}
	s, err = store.Write(storeCtx, s, m.need(ctx, l), func(_ context.Context, dir string, s *api.Snapshot) (err error) {
		saved, err = l.machine.(Saver).Save(saveCtx, dir, SaveOptions{Files: files, Stop: true})
		if gone = err == nil; gone {
			err = l.mark(storeCtx, &saved)
		}
		saved.note(s)
		return err
	})
	switch {
	case err != nil && !gone:
		on(saved.Paused)
		return m.unmean(l, before), err
	case err != nil:
		// It stood on the step between memory and disk, and the disk failed.
		proof, _ := l.machine.Kill(storeCtx)
		m.settle(l, api.SandboxLost, "paused to disk, and what was saved could not be stored: "+err.Error(), &proof)
		on(0)
		return l.snapshot(), err
	}
	row := m.retire(l, meant, files)
	on(0) // those who wait for the gate find out
	m.event(row.ID, api.EventSandboxState, api.SandboxStateEvent{State: row.State, Reason: "paused to disk in snapshot " + string(s.ID)})
	return row, nil
}

// mean stores that a sandbox is about to be paused into a snapshot.
func (m *Manager) mean(ctx context.Context, l *live, id api.SnapshotID) (api.Sandbox, error) {
	l.mu.Lock()
	l.row.Snapshot = id
	// What it has left is counted from when it was saved, by the wall clock.
	l.row.ExpiresAt = m.wall().Add(l.clock.left())
	row := l.row
	l.mu.Unlock()
	if err := m.cfg.Rows.UpdateSandbox(ctx, row); err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.row.Snapshot = ""
		return l.row, err
	}
	return row, nil
}

// unmean takes that back.
func (m *Manager) unmean(l *live, before api.Sandbox) api.Sandbox {
	l.mu.Lock()
	l.row.Snapshot = before.Snapshot
	row := l.row
	settled := l.settled
	l.mu.Unlock()
	if !settled {
		m.storeSandbox(row)
	}
	return row
}

func (m *Manager) storeSandbox(row api.Sandbox) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := m.cfg.Rows.UpdateSandbox(ctx, row); err != nil {
		m.log.Error("row of sandbox not stored", "sandbox", row.ID, "error", err)
	}
}

// retire takes a sandbox whose state is on disk, and whose machine has ended, out
// of the table. Its commands keep their records, unless they ended with it because
// its files alone were saved.
func (m *Manager) retire(l *live, meant api.Sandbox, files bool) api.Sandbox {
	l.mu.Lock()
	l.parked, l.settled = true, true
	l.row.State, l.row.Snapshot = api.SandboxPaused, meant.Snapshot
	row, guest, machine, said := l.row, l.guest, l.machine, l.said
	execs := make([]*running, 0, len(l.execs))
	for _, x := range l.execs {
		execs = append(execs, x)
	}
	l.mu.Unlock()
	m.storeSandbox(row)
	machine.Link().Close()
	guest.Close()
	for _, x := range execs {
		if files {
			x.abandon(m, api.CauseKilled)
			continue
		}
		x.letOff(m)
	}
	// The machine has ended; what it held goes with it.
	ctx, cancel := context.WithTimeout(context.Background(), killTimeout)
	defer cancel()
	if _, err := machine.Kill(ctx); err != nil {
		m.log.Error("a sandbox that was paused to disk was not freed", "sandbox", row.ID, "error", err)
	}
	l.awaitSaid(said)
	m.forget(l)
	close(l.ended)
	return row
}

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
