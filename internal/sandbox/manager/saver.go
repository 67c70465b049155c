package manager

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/choice"
	"hortus.dev/internal/sandbox/life"
	"hortus.dev/internal/sandbox/outgoing"
	"hortus.dev/internal/sandbox/pool"
)

// Saver saves the states of running sandboxes, and has the saved states.
type Saver struct {
	table     *table
	lifecycle *lifecycle
	planner   *Planner
	origins   *origins
	chooser   *choice.Chooser
	guests    *Guests
	pool      *pool.Pool
	facts     facts
	rows      sandbox.Rows
}

// Snapshot saves a running sandbox, which continues.
//
// Errors: KindInvalid for a name that is none, KindUnsupported, naming the
// capability, where neither memory nor files can be saved, KindExhausted when the
// disk has no space, those of a sandbox that does not run.
func (v *Saver) Snapshot(ctx context.Context, id api.SandboxID, req api.CreateSnapshot) (api.Snapshot, error) {
	var names []string
	if req.Name != "" || len(req.Tags) > 0 {
		var err error
		if names, err = v.planner.names(req.Name, req.Tags...); err != nil {
			return api.Snapshot{}, err
		}
	}
	if err := outgoing.NoHeaders(req.DefaultEgress); err != nil {
		return api.Snapshot{}, err
	}
	if _, err := v.planner.policies.Resolve(ctx, outgoing.Request{Policy: req.DefaultEgress}); err != nil {
		return api.Snapshot{}, err
	}
	if err := api.CheckOnRestore(req.OnRestore); err != nil {
		return api.Snapshot{}, err
	}
	store, err := v.origins.store()
	if err != nil {
		return api.Snapshot{}, err
	}
	in, err := v.savable(ctx, id)
	if err != nil {
		return api.Snapshot{}, err
	}
	s := in.described(ctx)
	s.SetNames(names)
	s.EgressPolicy = req.DefaultEgress
	s.OnRestore = cmp.Or(req.OnRestore, s.OnRestore)
	if req.Build != nil {
		s.BuildKey, s.Defaults = req.Build.Key, &req.Build.Defaults
	}
	if _, ok := v.chooser.Report(ctx, in.backend).Has(api.CapCheckpoint); ok && s.Name != "" && !req.FilesOnly {
		var lerr error
		if s.Listeners, lerr = v.guests.listeners(ctx, in); lerr != nil {
			s.ListenersError = lerr.Error()
		}
	}
	s, err = store.Write(ctx, s, v.imageSize(ctx, in), func(ctx context.Context, dir string, s *api.Snapshot) error {
		saved, err := v.save(ctx, in, dir, sandbox.SaveOptions{Files: req.FilesOnly, CopyMemory: req.CopyMemory})
		if describe(saved, s); s.Kind != api.SnapshotMemory {
			s.Listeners, s.ListenersError = nil, ""
			if req.Build != nil && req.Build.Start != "" {
				s.OnRestore = req.Build.Start
			}
		}
		return err
	})
	if err != nil {
		return api.Snapshot{}, err
	}
	v.facts.tell(in, api.EventSnapshot, s)
	if s.Name != "" {
		v.dropRemoved(ctx, store)
	}
	return s, nil
}

// dropRemoved takes down the pooled guests of snapshots that are removed or broken.
func (v *Saver) dropRemoved(ctx context.Context, store sandbox.Snapshots) {
	v.pool.DropSnapshots(func(id api.SnapshotID) bool {
		r, err := store.Snapshot(ctx, id)
		return err == nil && r.State.Final()
	})
}

// described returns what is known of a snapshot of the sandbox before it is taken. Its key
// is that of the caller, or that of the sandbox if the deadline takes it.
func (in *instance) described(ctx context.Context) api.Snapshot {
	row := in.Row()
	s := api.Snapshot{
		ID: api.NewSnapshotID(), Sandbox: row.ID, Parent: row.Snapshot, Template: row.Template,
		Lineage: row.LineageID(), OnRestore: row.OnRestore, PrivateTraffic: row.PrivateTraffic, IDEPort: row.IDEPort, Defaults: row.Defaults, Limits: row.Limits, Identities: row.Identities, Account: row.Account,
		Key: cmp.Or(api.PrincipalOf(ctx).Key, row.Key),
	}
	for _, d := range in.layers {
		s.Layers = append(s.Layers, string(d))
	}
	return s
}

// describe writes down what was saved.
func describe(s sandbox.Saved, r *api.Snapshot) {
	r.Kind, r.Why, r.Image, r.PausedMS = s.Kind, s.Why, s.Mark, s.Paused.Milliseconds()
}

// noCheckpoint is the hint of a backend that cannot save and does not say what can.
const noCheckpoint = "run hortus doctor to see what this host supports"

// savable returns a running sandbox that can be saved, or an error with the reason why it cannot.
func (v *Saver) savable(ctx context.Context, id api.SandboxID) (*instance, error) {
	in, err := v.saver(ctx, id)
	if err == nil && in.workspace != nil {
		return nil, api.Errorf(api.KindUnsupported, "sandbox %s has a workspace, which is not part of snapshots (capability %s)", id, api.CapCheckpoint)
	}
	return in, err
}

// saver returns a running sandbox whose backend can save one.
func (v *Saver) saver(ctx context.Context, id api.SandboxID) (*instance, error) {
	in, err := v.table.running(ctx, id)
	if err != nil {
		return nil, err
	}
	if !in.backend.Capabilities().Save {
		a, _ := v.chooser.Report(ctx, in.backend).Has(api.CapCheckpoint)
		return nil, v.chooser.Advise(ctx, api.Errorf(api.KindUnsupported, "the %s backend cannot save the memory or the files of a sandbox: %s (capability %s)",
			in.backend.Name(), a.Reason, api.CapCheckpoint).WithHint("%s", cmp.Or(a.Fix, noCheckpoint)))
	}
	return in, nil
}

// imageSize is about how many bytes an image of a sandbox has.
func (v *Saver) imageSize(ctx context.Context, in *instance) int64 {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	s, err := in.machine.Stats(ctx)
	if err != nil {
		return 0
	}
	memory := s.MemoryOwnBytes
	if memory < 0 {
		memory = max(s.MemoryBytes, 0)
	}
	for _, shared := range s.SharedMemory {
		if !shared.File { // a file is linked, memory of another sandbox is written
			memory += shared.Bytes
		}
	}
	return memory + max(s.DiskUsedBytes, 0)
}

// save saves a running sandbox, which continues: files alone if that was requested, or if its
// memory cannot be saved. Streams of commands are opened again by those who read them.
func (v *Saver) save(ctx context.Context, in *instance, dir string, o sandbox.SaveOptions) (saved sandbox.Saved, err error) {
	if _, err := v.lifecycle.fire(ctx, in, life.Save); err != nil {
		return sandbox.Saved{}, err
	}
	defer func() { in.Fire(life.SaveDone, nil) }()
	resume, err := in.quiesce(ctx)
	if err != nil {
		return sandbox.Saved{}, err
	}
	defer func() { resume(saved.Paused) }()
	saved, err = in.machine.Save(ctx, dir, o)
	if api.KindOf(err) == api.KindUnsupported && !o.Files && o.Standstill == nil {
		why := err.Error()
		if err := empty(dir); err != nil {
			return sandbox.Saved{}, err
		}
		o.Files = true
		if saved, err = in.machine.Save(ctx, dir, o); err == nil && saved.Why == "" {
			saved.Why = why
		}
	}
	if err == nil {
		err = in.markImage(ctx, &saved)
	}
	if err != nil && (in.State() != life.Saving || machineEnded(in)) {
		err = api.Errorf(api.KindUnavailable, "sandbox %s ended while it was being saved: %w", in.id, err)
	}
	return saved, err
}

func machineEnded(in *instance) bool {
	select {
	case <-in.machine.Done():
		return true
	default:
		return false
	}
}

// markImage fills in what can restore an image, where its machine left that to the
// backend.
func (in *instance) markImage(ctx context.Context, s *sandbox.Saved) (err error) {
	if s.Mark.Backend == "" {
		s.Mark, err = in.backend.Mark(ctx, s.Kind)
	}
	return err
}

// empty removes what a save left that failed.
func empty(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if err == nil {
			err = os.RemoveAll(filepath.Join(dir, e.Name()))
		}
	}
	if err != nil {
		return api.Errorf(api.KindInternal, "remove the rest of a failed save: %w", err)
	}
	return nil
}

// quiesce closes the sandbox's gate, holds new streams back and stops the host's own
// timeouts of its commands. resume undoes it, and moves the timeouts by how long the sandbox
// was paused.
func (in *instance) quiesce(ctx context.Context) (resume func(paused time.Duration), err error) {
	if err := in.gate.Close(ctx); err != nil {
		return nil, err
	}
	admit, err := in.machine.Link().Quiesce(ctx)
	if err != nil {
		in.gate.Open()
		return nil, err
	}
	start := in.commands.StopClocks()
	return func(paused time.Duration) {
		start(paused)
		admit()
		in.gate.Open()
	}, nil
}

// Standstill calls do while no process of a running sandbox runs; it continues afterwards, whatever do returns. Commands that
// are started meanwhile wait, as do a pause, a resume and a save; the timeouts of commands stop. A kill waits
// for nothing: the error says so then, and what do read may be of different instants.
//
// Errors: KindUnsupported where a sandbox cannot be paused, those of a sandbox that does not run. One that cannot continue is paused.
func (v *Saver) Standstill(ctx context.Context, id api.SandboxID, do func(context.Context) error) error {
	in, err := v.table.running(ctx, id)
	if err == nil {
		_, err = v.lifecycle.fire(ctx, in, life.Save)
	}
	if err != nil {
		return err
	}
	stuck := false
	defer func() {
		if !stuck { // another caller may have it otherwise
			in.Fire(life.SaveDone, nil)
		}
	}()
	resume, err := in.quiesce(ctx)
	if err != nil {
		return err
	}
	since := time.Now()
	defer func() { resume(time.Since(since)) }()
	if err := in.machine.Pause(ctx); err != nil {
		return err
	}
	err = do(ctx)
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), killTimeout)
	defer cancel()
	rerr := in.machine.Resume(late)
	if in.State() != life.Saving || machineEnded(in) {
		return errors.Join(err, api.Errorf(api.KindUnavailable, "sandbox %s ended while it was paused for a copy", id))
	}
	if rerr != nil {
		step := in.Fire(life.PauseDone, nil)
		if stuck = step.Answer == life.Go; stuck {
			rerr = errors.Join(rerr, v.lifecycle.do(late, in, step, note{reason: "it could not be resumed: " + rerr.Error()}))
		}
		rerr = api.Errorf(api.KindOf(rerr), "sandbox %s was stopped for a copy and does not continue: %w", id, rerr).WithHint("try to resume it: hortus sandbox resume %s", id)
	}
	return errors.Join(err, rerr)
}

// Snapshots lists what was saved, the newest first: what can be used or is being
// saved, or all.
func (v *Saver) Snapshots(ctx context.Context, all bool) ([]api.Snapshot, error) {
	store, err := v.origins.store()
	if err != nil {
		return nil, err
	}
	return store.Snapshots(ctx, all)
}

// GetSnapshot returns a snapshot's row, whatever its state.
func (v *Saver) GetSnapshot(ctx context.Context, id api.SnapshotID) (api.Snapshot, error) {
	store, err := v.origins.store()
	if err != nil {
		return api.Snapshot{}, err
	}
	return store.Snapshot(ctx, id)
}

// FindSnapshot returns the ID of the snapshot with a template's name or a unique prefix of an ID.
func (v *Saver) FindSnapshot(ctx context.Context, nameOrPrefix string) (api.SnapshotID, error) {
	store, err := v.origins.store()
	if err != nil {
		return "", err
	}
	return store.Find(ctx, nameOrPrefix)
}

// RemoveSnapshot removes a snapshot for good. It fails with KindConflict while a
// sandbox is paused in it.
func (v *Saver) RemoveSnapshot(ctx context.Context, id api.SnapshotID) (api.Snapshot, error) {
	store, err := v.origins.store()
	if err != nil {
		return api.Snapshot{}, err
	}
	s, err := store.Snapshot(ctx, id)
	if err != nil {
		return s, err
	}
	if s.Paused && !s.State.Final() {
		row, err := v.rows.Sandbox(ctx, s.Sandbox)
		if err == nil && !row.State.Final() && row.Snapshot == id {
			return s, api.Errorf(api.KindConflict, "sandbox %s is paused in snapshot %s", row.ID, id).
				WithHint("resume the sandbox (hortus sandbox resume %s) or kill it", row.ID)
		}
	}
	s, err = store.Remove(ctx, id, "removed")
	v.pool.DropSnapshots(func(of api.SnapshotID) bool { return of == id })
	return s, err
}

// TagSnapshot gives a template more tags. Other snapshots of the template lose them, and those that
// have no other are removed.
func (v *Saver) TagSnapshot(ctx context.Context, id api.SnapshotID, req api.TagSnapshot) (api.Snapshot, error) {
	return v.rename(ctx, id, func(store sandbox.Snapshots, base string) (api.Snapshot, error) {
		if len(req.Tags) == 0 {
			return api.Snapshot{}, api.Errorf(api.KindInvalid, "tags are missing")
		}
		names, err := v.planner.names(base, req.Tags...)
		if err != nil {
			return api.Snapshot{}, err
		}
		return store.Tag(ctx, id, names)
	})
}

// UntagSnapshot takes a tag from a template. The snapshot is removed with its last tag.
func (v *Saver) UntagSnapshot(ctx context.Context, id api.SnapshotID, tag string) (api.Snapshot, error) {
	return v.rename(ctx, id, func(store sandbox.Snapshots, base string) (api.Snapshot, error) {
		return store.Untag(ctx, id, api.JoinTemplateName(base, tag))
	})
}

// rename calls do with the name of a template without a tag.
func (v *Saver) rename(ctx context.Context, id api.SnapshotID, do func(store sandbox.Snapshots, base string) (api.Snapshot, error)) (api.Snapshot, error) {
	store, err := v.origins.store()
	if err != nil {
		return api.Snapshot{}, err
	}
	s, err := store.Snapshot(ctx, id)
	if err != nil {
		return s, err
	}
	if s.Name == "" || s.State != api.SnapshotReady {
		return s, api.Errorf(api.KindInvalid, "snapshot %s is not a template, and only templates have tags", id)
	}
	base, _ := api.SplitTemplateName(s.Name)
	if s, err = do(store, base); err == nil {
		v.dropRemoved(ctx, store)
	}
	return s, err
}
