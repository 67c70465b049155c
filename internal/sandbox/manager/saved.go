package manager

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/life"
	"hortus.dev/internal/sandbox/outgoing"
)

// saves is what a manager does with saved states of sandboxes: snapshots, forks, and
// pauses to disk.
type saves struct{ *core }

// snapshots returns the store, or an error if there is none.
func (c *planner) snapshots() (sandbox.Snapshots, error) {
	if c.cfg.Snapshots == nil {
		return nil, api.Errorf(api.KindUnsupported, "this daemon has no snapshot store")
	}
	return c.cfg.Snapshots, nil
}

// Snapshot saves a running sandbox, which continues.
//
// Errors: KindInvalid for a name that is none, KindUnsupported, naming the
// capability, where neither memory nor files can be saved, KindExhausted when the
// disk has no space, those of a sandbox that does not run.
func (m saves) Snapshot(ctx context.Context, id api.SandboxID, req api.CreateSnapshot) (api.Snapshot, error) {
	if req.Name != "" {
		if err := m.cfg.checkName(req.Name); err != nil {
			return api.Snapshot{}, err
		}
	}
	if err := outgoing.NoHeaders(req.DefaultEgress); err != nil {
		return api.Snapshot{}, err
	}
	if _, err := m.egress.Resolve(ctx, outgoing.Request{Policy: req.DefaultEgress}); err != nil {
		return api.Snapshot{}, err
	}
	store, err := m.snapshots()
	if err != nil {
		return api.Snapshot{}, err
	}
	l, err := m.savable(ctx, id)
	if err != nil {
		return api.Snapshot{}, err
	}
	s := l.described(ctx)
	s.Name, s.EgressPolicy = req.Name, req.DefaultEgress
	s, err = store.Write(ctx, s, m.imageSize(ctx, l), func(ctx context.Context, dir string, s *api.Snapshot) error {
		saved, err := m.save(ctx, l, dir, sandbox.SaveOptions{Files: req.FilesOnly, CopyMemory: req.CopyMemory})
		describe(saved, s)
		return err
	})
	if err != nil {
		return api.Snapshot{}, err
	}
	m.tell(l, api.EventSnapshot, s)
	if s.Name != "" {
		m.pool.DropSnapshots(func(id api.SnapshotID) bool {
			r, err := store.Snapshot(ctx, id)
			return err == nil && r.State.Final()
		})
	}
	return s, nil
}

// described returns what is known of a snapshot of the sandbox before it is taken. Its key
// is that of the caller, or that of the sandbox if the deadline takes it.
func (l *live) described(ctx context.Context) api.Snapshot {
	row := l.Row()
	s := api.Snapshot{
		ID: api.NewSnapshotID(), Sandbox: row.ID, Parent: row.Snapshot, Template: row.Template,
		Lineage: row.LineageID(), Limits: row.Limits, Identities: row.Identities, Account: row.Account,
		Key: cmp.Or(api.PrincipalOf(ctx).Key, row.Key),
	}
	for _, d := range l.layers {
		s.Layers = append(s.Layers, string(d))
	}
	return s
}

// describe writes down what was saved.
func describe(s sandbox.Saved, r *api.Snapshot) {
	r.Kind, r.Why, r.Image, r.PausedMS = s.Kind, s.Why, s.Mark, s.Paused.Milliseconds()
}

// savable returns a running sandbox that can be saved, or an error with the reason why it cannot.
func (c saves) savable(ctx context.Context, id api.SandboxID) (*live, error) {
	l, err := c.saver(ctx, id)
	if err == nil && l.workspace != nil {
		return nil, api.Errorf(api.KindUnsupported, "sandbox %s has a workspace, which is not part of snapshots (capability %s)", id, api.CapCheckpoint)
	}
	return l, err
}

// saver returns a running sandbox whose backend can save one.
func (c saves) saver(ctx context.Context, id api.SandboxID) (*live, error) {
	l, err := c.running(ctx, id)
	if err != nil {
		return nil, err
	}
	if !l.backend.Capabilities().Save {
		a, _ := c.Report(ctx, l.backend).Has(api.CapCheckpoint)
		return nil, api.Errorf(api.KindUnsupported, "the %s backend cannot save the memory or the files of a sandbox: %s (capability %s)",
			l.backend.Name(), a.Reason, api.CapCheckpoint).WithHint("run hortus doctor to see what this host supports")
	}
	return l, nil
}

// imageSize is about how many bytes an image of a sandbox has.
func (c saves) imageSize(ctx context.Context, l *live) int64 {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	s, err := l.machine.Stats(ctx)
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
func (c saves) save(ctx context.Context, l *live, dir string, o sandbox.SaveOptions) (saved sandbox.Saved, err error) {
	if _, err := c.fire(ctx, l, life.Save); err != nil {
		return sandbox.Saved{}, err
	}
	defer func() { l.Fire(life.SaveDone, nil) }()
	resume, err := l.quiesce(ctx)
	if err != nil {
		return sandbox.Saved{}, err
	}
	defer func() { resume(saved.Paused) }()
	saved, err = l.machine.Save(ctx, dir, o)
	if api.KindOf(err) == api.KindUnsupported && !o.Files && o.Standstill == nil {
		why := err.Error()
		if err := empty(dir); err != nil {
			return sandbox.Saved{}, err
		}
		o.Files = true
		if saved, err = l.machine.Save(ctx, dir, o); err == nil && saved.Why == "" {
			saved.Why = why
		}
	}
	if err == nil {
		err = l.markImage(ctx, &saved)
	}
	if err != nil && (l.State() != life.Saving || machineEnded(l)) {
		err = api.Errorf(api.KindUnavailable, "sandbox %s ended while it was being saved: %w", l.id, err)
	}
	return saved, err
}

func machineEnded(l *live) bool {
	select {
	case <-l.machine.Done():
		return true
	default:
		return false
	}
}

// markImage fills in what can restore an image, where its machine left that to the
// backend.
func (l *live) markImage(ctx context.Context, s *sandbox.Saved) (err error) {
	if s.Mark.Backend == "" {
		s.Mark, err = l.backend.Mark(ctx, s.Kind)
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
func (l *live) quiesce(ctx context.Context) (resume func(paused time.Duration), err error) {
	if err := l.gate.Close(ctx); err != nil {
		return nil, err
	}
	admit, err := l.machine.Link().Quiesce(ctx)
	if err != nil {
		l.gate.Open()
		return nil, err
	}
	start := l.commands.StopClocks()
	return func(paused time.Duration) {
		start(paused)
		admit()
		l.gate.Open()
	}, nil
}

// Snapshots lists what was saved, the newest first: what can be used or is being
// saved, or all.
func (m saves) Snapshots(ctx context.Context, all bool) ([]api.Snapshot, error) {
	store, err := m.snapshots()
	if err != nil {
		return nil, err
	}
	return store.Snapshots(ctx, all)
}

// GetSnapshot returns a snapshot's row, whatever its state.
func (m saves) GetSnapshot(ctx context.Context, id api.SnapshotID) (api.Snapshot, error) {
	store, err := m.snapshots()
	if err != nil {
		return api.Snapshot{}, err
	}
	return store.Snapshot(ctx, id)
}

// FindSnapshot returns the ID of the snapshot with a template's name or a unique prefix of an ID.
func (m saves) FindSnapshot(ctx context.Context, nameOrPrefix string) (api.SnapshotID, error) {
	store, err := m.snapshots()
	if err != nil {
		return "", err
	}
	return store.Find(ctx, nameOrPrefix)
}

// RemoveSnapshot removes a snapshot for good. It fails with KindConflict while a
// sandbox is paused in it.
func (m saves) RemoveSnapshot(ctx context.Context, id api.SnapshotID) (api.Snapshot, error) {
	store, err := m.snapshots()
	if err != nil {
		return api.Snapshot{}, err
	}
	s, err := store.Snapshot(ctx, id)
	if err != nil {
		return s, err
	}
	if s.Paused && !s.State.Final() {
		row, err := m.cfg.Rows.Sandbox(ctx, s.Sandbox)
		if err == nil && !row.State.Final() && row.Snapshot == id {
			return s, api.Errorf(api.KindConflict, "sandbox %s is paused in snapshot %s", row.ID, id).
				WithHint("resume the sandbox (hortus sandbox resume %s) or kill it", row.ID)
		}
	}
	s, err = store.Remove(ctx, id, "removed")
	m.pool.DropSnapshots(func(of api.SnapshotID) bool { return of == id })
	return s, err
}
