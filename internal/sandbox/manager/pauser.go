package manager

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/choice"
	"hortus.dev/internal/sandbox/command"
	"hortus.dev/internal/sandbox/life"
)

// Pauser pauses sandboxes to disk, and resumes or ends those that are paused there.
type Pauser struct {
	table     *table
	lifecycle *lifecycle
	saver     *Saver
	origins   *origins
	capacity  *capacity
	chooser   *choice.Chooser
	run       *command.Commands
	facts     facts
	rows      sandbox.Rows
	watcher   sandbox.Watcher
	owner     api.OwnerID
	log       *slog.Logger
	// moving has the sandboxes that Move works on: nobody else resumes them.
	moving sync.Map
}

// pausing is how a sandbox is paused to disk: its written files only, or to continue on another host.
type pausing struct{ files, moving bool }

func (p pausing) reason(id api.SnapshotID) string {
	if p.moving {
		return "paused to continue on another node, in snapshot " + string(id)
	}
	return "paused to disk in snapshot " + string(id)
}

// saveTimeout bounds a pause to disk once the caller is not asked any more.
const saveTimeout = 10 * time.Minute

// nothingRan is the proof of the end of a sandbox that was paused to disk.
const nothingRan = "the sandbox was paused to disk; nothing was running"

// PauseToDisk saves a running sandbox and releases its processes and memory; its time to live is
// suspended. The paused sandbox survives the daemon and a reboot of the machine, and Resume
// continues it under the same ID. Its commands continue with it; their records stay running.
//
// Errors: KindUnsupported, with the capability, if memory cannot be saved; those of Snapshot. After
// an error the sandbox continues, unless its reason says otherwise.
func (p *Pauser) PauseToDisk(ctx context.Context, id api.SandboxID) (api.Sandbox, error) {
	return p.suspend(ctx, id, pausing{})
}

// PauseFiles is PauseToDisk of written files only. Its commands end: the resumed sandbox has none of
// its processes.
//
// Errors: KindUnsupported if files cannot be saved without memory; those of Snapshot.
func (p *Pauser) PauseFiles(ctx context.Context, id api.SandboxID) (api.Sandbox, error) {
	return p.suspend(ctx, id, pausing{files: true})
}

func (p *Pauser) suspend(ctx context.Context, id api.SandboxID, how pausing) (api.Sandbox, error) {
	store, err := p.origins.store()
	if err != nil {
		return api.Sandbox{}, err
	}
	in, err := p.saver.savable(ctx, id)
	if err != nil {
		return api.Sandbox{}, err
	}
	if a, ok := p.chooser.Report(ctx, in.backend).Has(api.CapCheckpoint); !ok && !how.files {
		return api.Sandbox{}, api.Errorf(api.KindUnsupported, "a pause to disk needs to save memory, which the %s backend cannot do on this host: %s (capability %s)",
			in.backend.Name(), a.Reason, api.CapCheckpoint).WithHint("take a snapshot of the files instead, or pause the sandbox in memory")
	}
	if _, err := p.lifecycle.fire(ctx, in, life.Suspend); err != nil {
		return in.Row(), err
	}
	saveCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer in.save.Set(cancel)()
	return p.suspendTo(ctx, saveCtx, in, store, how)
}

// suspendTo is suspend of a sandbox that is in the state for it. saveCtx ends when the pause is
// cancelled.
func (p *Pauser) suspendTo(ctx, saveCtx context.Context, in *instance, store sandbox.Snapshots, how pausing) (api.Sandbox, error) {
	s := in.described(ctx)
	s.Paused = true
	before := in.Row()
	back := func() api.Sandbox { return p.notSuspended(in, before) }
	// The row is stored first: if the daemon dies, a row with a complete snapshot of that ID
	// is a paused sandbox. Its remaining time counts from the save, by the wall clock.
	due := p.lifecycle.wall().Add(in.Left())
	in.Edit(func(row *api.Sandbox) { row.Snapshot, row.ExpiresAt, row.Moving = s.ID, due, how.moving })
	if err := p.lifecycle.store(ctx, in); err != nil {
		return back(), err
	}
	resume, err := in.quiesce(saveCtx)
	if err != nil {
		return back(), err
	}
	held, since := false, time.Now()
	// Once the machine is paused, the caller can no longer cancel.
	storeCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTimeout)
	defer cancel()
	saved := sandbox.Saved{}
	s, err = store.Write(storeCtx, s, p.saver.imageSize(ctx, in), func(_ context.Context, dir string, s *api.Snapshot) (err error) {
		saved, err = in.machine.Save(saveCtx, dir, sandbox.SaveOptions{Files: how.files, Hold: true})
		if held = err == nil; held {
			err = in.markImage(storeCtx, &saved)
		}
		describe(saved, s)
		return err
	})
	switch {
	case err != nil && held:
		if rerr := in.machine.Release(storeCtx); rerr != nil {
			proof, _ := in.machine.Kill(storeCtx)
			_ = p.lifecycle.finish(in, life.Lose, "the pause to disk failed, and the sandbox could not be resumed: "+rerr.Error(), &proof)
			resume(0)
			return in.Row(), errors.Join(err, rerr)
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
	if err := p.endSuspended(storeCtx, in); err != nil {
		_, rerr := store.Remove(storeCtx, s.ID, "sandbox "+string(in.id)+" could not be stopped and is still running")
		row := back()
		resume(time.Since(since))
		return row, errors.Join(err, rerr)
	}
	done, why := life.SuspendDone, ""
	if how.files {
		done, why = life.SuspendFilesDone, api.CauseKilled
	}
	step := in.Fire(done, nil)
	_ = p.lifecycle.do(storeCtx, in, step, note{commands: why, reason: how.reason(s.ID)})
	resume(0) // those who wait for the gate find out
	return in.Row(), nil
}

// notSuspended lets a sandbox run again that could not be paused to disk.
func (p *Pauser) notSuspended(in *instance, before api.Sandbox) api.Sandbox {
	step := in.Fire(life.SuspendFailed, func(row *api.Sandbox) { row.Snapshot, row.Moving = before.Snapshot, false })
	if err := p.lifecycle.do(context.Background(), in, step, note{}); err != nil {
		p.log.Error("cannot store sandbox record", "sandbox", in.id, "error", err)
	}
	return in.Row()
}

// endSuspended ends a paused machine whose state is recorded. After an error it resumes the
// machine: there must not be two copies. If neither completes in time, the machine is being
// ended and does not run.
func (p *Pauser) endSuspended(ctx context.Context, in *instance) error {
	killCtx, cancel := context.WithTimeout(ctx, killTimeout)
	defer cancel()
	_, err := in.machine.Kill(killCtx)
	if err == nil {
		return nil
	}
	if rerr := in.machine.Release(ctx); rerr != nil {
		p.log.Error("cannot stop a sandbox that is paused to disk", "sandbox", in.id, "error", err)
		return nil
	}
	return err
}

// take registers a sandbox that is paused to disk, in a state that excludes other callers. It fails
// with KindConflict if another caller was faster.
func (p *Pauser) take(ctx context.Context, row api.Sandbox, b sandbox.Backend, state life.State) (*instance, error) {
	in := p.lifecycle.instance(row, b, state)
	if err := p.table.register(in); err != nil {
		return nil, err
	}
	now, err := p.rows.Sandbox(ctx, in.id)
	switch {
	case err != nil:
	case now.State.Final():
		err = ended(now)
	case !suspended(now) || now.Owner != p.owner:
		err = api.Errorf(api.KindConflict, "sandbox %s belongs to another daemon", in.id)
	default:
		in.Edit(func(row *api.Sandbox) { *row = now })
		return in, nil
	}
	p.untake(in)
	return nil, err
}

// untake gives up a sandbox that is paused to disk still.
func (p *Pauser) untake(in *instance) {
	step := in.Fire(life.BootFailed, nil)
	_ = p.lifecycle.do(context.Background(), in, step, note{})
}

// resumeFromDisk resumes a sandbox that is paused to disk. Until its row says running, the snapshot
// counts: a machine that a dead daemon left is not used. The sandbox lives for ttl, or for its
// remaining time if ttl is 0.
func (p *Pauser) resumeFromDisk(ctx context.Context, row api.Sandbox, ttl time.Duration) (api.Sandbox, error) {
	if _, moving := p.moving.Load(row.ID); moving {
		return row, command.Moving(row.ID)
	}
	store, err := p.origins.store()
	if err != nil {
		return row, err
	}
	b, _, _, err := p.chooser.Choose(ctx, row.Isolation)
	if err != nil {
		return row, err
	}
	in, err := p.take(ctx, row, b, life.Restoring)
	if err != nil {
		return row, err
	}
	row = in.Row()
	s, err := store.Snapshot(ctx, row.Snapshot)
	if err == nil && s.State == api.SnapshotReady {
		adopted := in.commands.Adopting()
		defer adopted()
		if err = p.resumeFrom(ctx, in, s, ttl); err == nil {
			if _, err := store.Remove(context.WithoutCancel(ctx), s.ID, "sandbox "+string(in.id)+" was resumed"); err != nil {
				p.log.Error("the snapshot of a pause was not removed", "sandbox", in.id, "error", err)
			}
			p.run.Adopt(ctx, in.commands, func(row api.Exec) time.Duration {
				return time.Duration(row.TimeoutMS)*time.Millisecond - max(s.CreatedAt.Sub(row.StartedAt), 0)
			})
			return in.Row(), nil
		}
		p.untake(in)
		// The first look at all its bytes may have found it broken.
		now, nerr := store.Snapshot(context.WithoutCancel(ctx), s.ID)
		if nerr != nil || !now.State.Final() {
			return row, err
		}
		// A kill removes the snapshot too, after it ended the sandbox.
		if kept, kerr := p.rows.Sandbox(context.WithoutCancel(ctx), row.ID); kerr != nil || kept.State.Final() {
			return row, err
		}
		s = now
	} else {
		p.untake(in)
		if err != nil && api.KindOf(err) != api.KindNotFound {
			return row, err
		}
	}
	reason := "the snapshot of the paused sandbox is " + string(s.State) + because(s.Reason)
	if s.State == "" {
		reason = "the snapshot of the paused sandbox is missing"
	}
	if err := p.lifecycle.markLost(context.WithoutCancel(ctx), row, reason, api.Proof{How: nothingRan}); err != nil {
		return row, err
	}
	row.State, row.Reason = api.SandboxLost, reason
	return row, ended(row)
}

// resumeFrom starts a sandbox from the snapshot that it is paused in.
func (p *Pauser) resumeFrom(ctx context.Context, in *instance, s api.Snapshot, ttl time.Duration) error {
	row := in.Row()
	if err := p.origins.restorable(ctx, in.backend, s); err != nil {
		return err
	}
	if err := envReadable(row); err != nil {
		return err
	}
	if s.Kind == api.SnapshotFiles {
		// A daemon that died in the pause may not have recorded their end.
		if err := p.run.EndAll(ctx, row.ID, api.CauseKilled); err != nil {
			return err
		}
	}
	if ttl == 0 {
		ttl = leftOf(row, s)
	}
	in.layers = layersOf(s)
	if err := p.capacity.take(ctx, in, nil); err != nil {
		return err
	}
	restoring, over := p.watcher.Begin(ctx, sandbox.Step{Op: sandbox.OpRestore, Sandbox: in.id})
	machine, err := restoreAndClaim(restoring, in, func(ctx context.Context, spec sandbox.Spec) (sandbox.Machine, error) {
		return p.origins.restore(ctx, s.ID, spec)
	})
	over(sandbox.Outcome{Isolation: row.Isolation, Err: err})
	if err == nil {
		err = p.table.whileOpen(func() {})
	}
	if err == nil {
		in.boot(machine, nil)
		err = in.egress.Open(ctx)
	}
	if err == nil {
		in.Edit(func(row *api.Sandbox) { row.State, row.Snapshot, row.Moving = api.SandboxRunning, s.Parent, false })
		in.Expire(ttl)
		if err = p.lifecycle.store(ctx, in); err == nil {
			return p.lifecycle.do(ctx, in, in.Fire(life.Boot, nil), note{})
		}
		in.Edit(func(r *api.Sandbox) { *r = row })
	}
	if machine != nil {
		killCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killTimeout)
		defer cancel()
		if _, kerr := machine.Kill(killCtx); kerr != nil {
			p.log.Error("cannot kill a sandbox that failed to resume", "sandbox", in.id, "error", kerr)
		}
	}
	return err
}

// killSuspended ends a sandbox that is paused to disk.
func (p *Pauser) killSuspended(ctx context.Context, row api.Sandbox) (api.Sandbox, api.Proof, error) {
	proof := api.Proof{How: nothingRan}
	in, err := p.take(ctx, row, nil, life.Restoring)
	if err != nil {
		return row, proof, err
	}
	row = in.Row()
	if err := p.run.EndAll(ctx, row.ID, api.CauseKilled); err != nil {
		p.untake(in)
		return row, proof, err
	}
	if err := p.lifecycle.finish(in, life.End, api.CauseKilled, &proof); err != nil {
		return row, proof, err
	}
	store, err := p.origins.store()
	if err == nil {
		_, err = store.Remove(context.WithoutCancel(ctx), row.Snapshot, "sandbox "+string(row.ID)+" was killed")
	}
	if api.KindOf(err) == api.KindNotFound {
		err = nil
	}
	return in.Row(), proof, err
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
