package sandbox

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"hortus.dev/api"
)

// Snapshots is where saved states are kept.
type Snapshots interface {
	// Write makes a snapshot of what save writes into dir, an empty directory;
	// save fills in what is known only afterwards. need is about how many bytes
	// that will be. After an error nothing is left.
	Write(ctx context.Context, s api.Snapshot, need int64, save func(ctx context.Context, dir string, s *api.Snapshot) error) (api.Snapshot, error)
	// Scratch makes an empty directory for an image that is needed for a moment.
	Scratch(need int64) (dir string, remove func() error, err error)
	// Use gives the directory of a snapshot, which is ready and whole, and stays
	// until done is called.
	Use(ctx context.Context, id api.SnapshotID) (s api.Snapshot, dir string, done func(), err error)
	Snapshot(ctx context.Context, id api.SnapshotID) (api.Snapshot, error)
	// Snapshots gives the newest first; final ones too when all is set.
	Snapshots(ctx context.Context, all bool) ([]api.Snapshot, error)
	// Template finds the snapshot that a name means to an account: its own, or
	// else the operator's; KindNotFound for none.
	Template(ctx context.Context, account, name string) (api.Snapshot, error)
	Find(ctx context.Context, nameOrPrefix string) (api.SnapshotID, error)
	Remove(ctx context.Context, id api.SnapshotID, reason string) (api.Snapshot, error)
}

// snapshots gives the store, or says that there is none.
func (m *Manager) snapshots() (Snapshots, error) {
	if m.cfg.Snapshots == nil {
		return nil, api.Errorf(api.KindUnsupported, "this daemon keeps no snapshots")
	}
	return m.cfg.Snapshots, nil
}

// Snapshot saves a running sandbox, which goes on.
//
// Errors: KindInvalid for a name that is none, KindUnsupported, naming the
// capability, where neither memory nor files can be saved, KindExhausted when the
// disk has no room, those of a sandbox that does not run.
func (m *Manager) Snapshot(ctx context.Context, id api.SandboxID, req api.CreateSnapshot) (api.Snapshot, error) {
	if req.Name != "" {
		if err := checkTemplateName(req.Name); err != nil {
			return api.Snapshot{}, err
		}
	}
	store, err := m.snapshots()
	if err != nil {
		return api.Snapshot{}, err
	}
	l, err := m.savable(ctx, id)
	if err != nil {
		return api.Snapshot{}, err
	}
	s := l.described()
	s.Name = req.Name
	s, err = store.Write(ctx, s, m.need(ctx, l), func(ctx context.Context, dir string, s *api.Snapshot) error {
		saved, err := m.save(ctx, l, dir, SaveOptions{Files: req.FilesOnly})
		saved.note(s)
		return err
	})
	if err != nil {
		return api.Snapshot{}, err
	}
	l.tell(m, api.EventSnapshot, s)
	if s.Name != "" {
		m.pool.dropSnapshots(func(id api.SnapshotID) bool {
			r, err := store.Snapshot(ctx, id)
			return err == nil && r.State.Final()
		})
	}
	return s, nil
}

// described is what is known of a snapshot of the sandbox before it is taken.
func (l *live) described() api.Snapshot {
	row := l.snapshot()
	s := api.Snapshot{
		ID: api.NewSnapshotID(), Sandbox: row.ID, Parent: row.Snapshot, Template: row.Template,
		Limits: row.Limits, Identities: row.Identities, Account: row.Account,
	}
	for _, d := range l.layers {
		s.Layers = append(s.Layers, string(d))
	}
	return s
}

// note writes down what was saved.
func (s Saved) note(r *api.Snapshot) {
	r.Kind, r.Why, r.Image, r.PausedMS = s.Kind, s.Why, s.Mark, s.Paused.Milliseconds()
}

// savable finds a running sandbox that can be saved, or says why it cannot.
func (m *Manager) savable(ctx context.Context, id api.SandboxID) (*live, error) {
	l, err := m.running(ctx, id)
	if err != nil {
		return nil, err
	}
	_, restores := l.backend.(Restorer)
	if _, saves := l.machine.(Saver); !saves || !restores {
		a, _ := m.probes.report(ctx, l.backend).Has(api.CapCheckpoint)
		return nil, api.Errorf(api.KindUnsupported, "the %s backend can save neither the memory nor the files of a sandbox: %s (capability %s)",
			l.backend.Name(), a.Reason, api.CapCheckpoint).WithHint("hortus doctor shows what this host can do")
	}
	if l.workspace {
		return nil, api.Errorf(api.KindUnsupported, "sandbox %s has a workspace, whose files outlive it and are not saved with it (capability %s)", id, api.CapCheckpoint)
	}
	return l, nil
}

// need is about how many bytes an image of a sandbox has.
func (m *Manager) need(ctx context.Context, l *live) int64 {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	s, err := l.machine.Stats(ctx)
	if err != nil {
		return 0
	}
	return max(s.MemoryBytes, 0) + max(s.DiskUsedBytes, 0)
}

// save saves a running sandbox, which goes on: files alone where that was asked
// for, or where its memory cannot be saved. Streams of commands are taken up again
// by those who read them.
func (m *Manager) save(ctx context.Context, l *live, dir string, o SaveOptions) (saved Saved, err error) {
	on, err := l.quiet(ctx)
	if err != nil {
		return Saved{}, err
	}
	defer func() { on(saved.Paused) }()
	saver := l.machine.(Saver)
	saved, err = saver.Save(ctx, dir, o)
	if api.KindOf(err) == api.KindUnsupported && !o.Files {
		why := err.Error()
		if err := empty(dir); err != nil {
			return Saved{}, err
		}
		o.Files = true
		if saved, err = saver.Save(ctx, dir, o); err == nil && saved.Why == "" {
			saved.Why = why
		}
	}
	if err == nil {
		err = l.mark(ctx, &saved)
	}
	if err != nil && l.ending() {
		err = api.Errorf(api.KindUnavailable, "sandbox %s ended while it was saved: %w", l.row.ID, err)
	}
	return saved, err
}

// mark fills in what can restore an image, where its machine left that to the
// backend.
func (l *live) mark(ctx context.Context, s *Saved) (err error) {
	if s.Mark.Backend == "" {
		s.Mark, err = l.backend.(Restorer).Mark(ctx, s.Kind)
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
		return api.Errorf(api.KindInternal, "what is left of a save: %w", err)
	}
	return nil
}

// quiet shuts the sandbox's gate and stops the host's own clocks of its commands.
// on undoes it, and moves the clocks by how long the sandbox stood still.
func (l *live) quiet(ctx context.Context) (on func(paused time.Duration), err error) {
	if err := l.gate.close(ctx); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var stopped []*running
	for _, x := range l.execs {
		if x.overdue != nil && x.overdue.Stop() {
			stopped = append(stopped, x)
		}
	}
	return func(paused time.Duration) {
		for _, x := range stopped {
			x.mu.Lock()
			if !x.done {
				x.due = x.due.Add(paused)
				x.overdue.Reset(time.Until(x.due))
			}
			x.mu.Unlock()
		}
		l.gate.open()
	}, nil
}

// Snapshots lists what was saved, the newest first: what can be used or is being
// saved, or all.
func (m *Manager) Snapshots(ctx context.Context, all bool) ([]api.Snapshot, error) {
	store, err := m.snapshots()
	if err != nil {
		return nil, err
	}
	return store.Snapshots(ctx, all)
}

// GetSnapshot gives a snapshot's row, whatever its state.
func (m *Manager) GetSnapshot(ctx context.Context, id api.SnapshotID) (api.Snapshot, error) {
	store, err := m.snapshots()
	if err != nil {
		return api.Snapshot{}, err
	}
	return store.Snapshot(ctx, id)
}

// FindSnapshot gives the snapshot that a template's name or a unique prefix of an
// id stands for.
func (m *Manager) FindSnapshot(ctx context.Context, nameOrPrefix string) (api.SnapshotID, error) {
	store, err := m.snapshots()
	if err != nil {
		return "", err
	}
	return store.Find(ctx, nameOrPrefix)
}

// RemoveSnapshot removes a snapshot for good. It fails with KindConflict while a
// sandbox is paused in it.
func (m *Manager) RemoveSnapshot(ctx context.Context, id api.SnapshotID) (api.Snapshot, error) {
	store, err := m.snapshots()
	if err != nil {
		return api.Snapshot{}, err
	}
	s, err := store.Snapshot(ctx, id)
	if err != nil {
		return s, err
	}
	if s.Paused && !s.State.Final() {
		row, err := m.Get(ctx, s.Sandbox)
		if err == nil && !row.State.Final() && row.Snapshot == id {
			return s, api.Errorf(api.KindConflict, "sandbox %s is paused in snapshot %s", row.ID, id).
				WithHint("resume or end it: hortus sandbox resume %s", row.ID)
		}
	}
	s, err = store.Remove(ctx, id, "removed")
	m.pool.dropSnapshots(func(of api.SnapshotID) bool { return of == id })
	return s, err
}
