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
	stood, since := false, time.Now()
	// Once the machine stands still nobody is asked whether to go on.
	storeCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTimeout)
	defer cancel()
	saved := Saved{}
	s, err = store.Write(storeCtx, s, m.need(ctx, l), func(_ context.Context, dir string, s *api.Snapshot) (err error) {
		saved, err = l.machine.(Saver).Save(saveCtx, dir, SaveOptions{Files: files, Hold: true})
		if stood = err == nil; stood {
			err = l.mark(storeCtx, &saved)
		}
		saved.note(s)
		return err
	})
	switch {
	case err != nil && stood:
		return m.goOn(storeCtx, l, before, on, since, err)
	case err != nil:
		on(saved.Paused)
		return m.unmean(l, before), err
	}
	// It ends when what was saved is on record, and not before: a daemon that dies in
	// between leaves the one or the other.
	if err := m.endParked(storeCtx, l); err != nil {
		_, rerr := store.Remove(storeCtx, s.ID, "sandbox "+string(before.ID)+" could not be ended, and goes on")
		on(time.Since(since))
		return m.unmean(l, before), errors.Join(err, rerr)
	}
	row := m.retire(l, meant, files)
	on(0) // those who wait for the gate find out
	m.event(row.ID, api.EventSandboxState, api.SandboxStateEvent{State: row.State, Reason: "paused to disk in snapshot " + string(s.ID)})
	return row, nil
}

// goOn has a sandbox go on that stood still for a pause which failed, for a reason.
func (m *Manager) goOn(ctx context.Context, l *live, before api.Sandbox, on func(time.Duration), since time.Time, why error) (api.Sandbox, error) {
	if err := l.machine.(Saver).Release(ctx); err != nil {
		proof, _ := l.machine.Kill(ctx)
		m.settle(l, api.SandboxLost, "it stood still to be paused to disk, which failed, and did not go on: "+err.Error(), &proof)
		on(0)
		return l.snapshot(), errors.Join(why, err)
	}
	on(time.Since(since))
	return m.unmean(l, before), why
}

// endParked ends a machine that stands still and whose state is on record. After an
// error it goes on: there must not be two of it. One that does neither in time is being
// ended, and runs no more.
func (m *Manager) endParked(ctx context.Context, l *live) error {
	killCtx, cancel := context.WithTimeout(ctx, killTimeout)
	defer cancel()
	_, err := l.machine.Kill(killCtx)
	if err == nil {
		return nil
	}
	if rerr := l.machine.(Saver).Release(ctx); rerr != nil {
		m.log.Error("a sandbox that is paused to disk has not ended yet", "sandbox", l.row.ID, "error", err)
		return nil
	}
	return err
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
