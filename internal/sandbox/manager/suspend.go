package manager

import (
	"context"
	"errors"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/life"
)

// saveTimeout bounds a pause to disk once the caller is not asked any more.
const saveTimeout = 10 * time.Minute

// PauseToDisk saves a running sandbox and releases its processes and memory; its time to live is
// suspended. The paused sandbox survives the daemon and a reboot of the machine, and Resume
// continues it under the same ID. Its commands continue with it; their records stay running.
//
// Errors: KindUnsupported, with the capability, if memory cannot be saved; those of Snapshot. After
// an error the sandbox continues, unless its reason says otherwise.
func (m saves) PauseToDisk(ctx context.Context, id api.SandboxID) (api.Sandbox, error) {
	return m.suspend(ctx, id, false)
}

// PauseFiles is PauseToDisk of written files only. Its commands end: the resumed sandbox has none of
// its processes.
//
// Errors: KindUnsupported if files cannot be saved without memory; those of Snapshot.
func (m saves) PauseFiles(ctx context.Context, id api.SandboxID) (api.Sandbox, error) {
	return m.suspend(ctx, id, true)
}

func (c saves) suspend(ctx context.Context, id api.SandboxID, files bool) (api.Sandbox, error) {
	store, err := c.snapshots()
	if err != nil {
		return api.Sandbox{}, err
	}
	l, err := c.savable(ctx, id)
	if err != nil {
		return api.Sandbox{}, err
	}
	if a, ok := c.Report(ctx, l.backend).Has(api.CapCheckpoint); !ok && !files {
		return api.Sandbox{}, api.Errorf(api.KindUnsupported, "a pause to disk needs to save memory, which the %s backend cannot do on this host: %s (capability %s)",
			l.backend.Name(), a.Reason, api.CapCheckpoint).WithHint("take a snapshot of the files instead, or pause the sandbox in memory")
	}
	if _, err := c.fire(ctx, l, life.Suspend); err != nil {
		return l.Row(), err
	}
	saveCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer l.save.Set(cancel)()
	return c.suspendTo(ctx, saveCtx, l, store, files)
}

// suspendTo is suspend of a sandbox that is in the state for it. saveCtx ends when the pause is
// cancelled.
func (c saves) suspendTo(ctx, saveCtx context.Context, l *live, store sandbox.Snapshots, files bool) (api.Sandbox, error) {
	s := l.described(ctx)
	s.Paused = true
	before := l.Row()
	back := func() api.Sandbox { return c.notSuspended(l, before) }
	// The row is stored first: if the daemon dies, a row with a complete snapshot of that ID
	// is a paused sandbox. Its remaining time counts from the save, by the wall clock.
	due := c.wall().Add(l.Left())
	l.Edit(func(row *api.Sandbox) { row.Snapshot, row.ExpiresAt = s.ID, due })
	if err := c.store(ctx, l); err != nil {
		return back(), err
	}
	resume, err := l.quiesce(saveCtx)
	if err != nil {
		return back(), err
	}
	held, since := false, time.Now()
	// Once the machine is paused, the caller can no longer cancel.
	storeCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTimeout)
	defer cancel()
	saved := sandbox.Saved{}
	s, err = store.Write(storeCtx, s, c.imageSize(ctx, l), func(_ context.Context, dir string, s *api.Snapshot) (err error) {
		saved, err = l.machine.Save(saveCtx, dir, sandbox.SaveOptions{Files: files, Hold: true})
		if held = err == nil; held {
			err = l.markImage(storeCtx, &saved)
		}
		describe(saved, s)
		return err
	})
	switch {
	case err != nil && held:
		if rerr := l.machine.Release(storeCtx); rerr != nil {
			proof, _ := l.machine.Kill(storeCtx)
			_ = c.finish(l, life.Lose, "the pause to disk failed, and the sandbox could not be resumed: "+rerr.Error(), &proof)
			resume(0)
			return l.Row(), errors.Join(err, rerr)
		}
		row := back()
		resume(time.Since(since))
		return row, err
	case err != nil:
		row := back()
		resume(saved.Paused)
		return row, err
	}
	// It ends when what was saved is on record, and not before: a daemon that dies in
	// between leaves the one or the other.
	if err := c.endSuspended(storeCtx, l); err != nil {
		_, rerr := store.Remove(storeCtx, s.ID, "sandbox "+string(l.id)+" could not be stopped and is still running")
		row := back()
		resume(time.Since(since))
		return row, errors.Join(err, rerr)
	}
	done, why := life.SuspendDone, ""
	if files {
		done, why = life.SuspendFilesDone, api.CauseKilled
	}
	step := l.Fire(done, nil)
	_ = c.do(storeCtx, l, step, note{commands: why, reason: "paused to disk in snapshot " + string(s.ID)})
	resume(0) // those who wait for the gate find out
	return l.Row(), nil
}

// notSuspended lets a sandbox run again that could not be paused to disk.
func (c saves) notSuspended(l *live, before api.Sandbox) api.Sandbox {
	step := l.Fire(life.SuspendFailed, func(row *api.Sandbox) { row.Snapshot = before.Snapshot })
	if err := c.do(context.Background(), l, step, note{}); err != nil {
		c.log.Error("cannot store sandbox record", "sandbox", l.id, "error", err)
	}
	return l.Row()
}

// endSuspended ends a paused machine whose state is recorded. After an error it resumes the
// machine: there must not be two copies. If neither completes in time, the machine is being
// ended and does not run.
func (c saves) endSuspended(ctx context.Context, l *live) error {
	killCtx, cancel := context.WithTimeout(ctx, killTimeout)
	defer cancel()
	_, err := l.machine.Kill(killCtx)
	if err == nil {
		return nil
	}
	if rerr := l.machine.Release(ctx); rerr != nil {
		c.log.Error("cannot stop a sandbox that is paused to disk", "sandbox", l.id, "error", err)
		return nil
	}
	return err
}
