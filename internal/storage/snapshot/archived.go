package snapshot

import (
	"context"
	"errors"
	"os"
	"slices"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/storage/artefact"
	"hortus.dev/internal/storage/layer"
)

// How often Start looks for what is to be archived, and collects what nobody needs in the archive.
const (
	archiveEvery = 30 * time.Second
	collectEvery = artefact.Grace
)

// unarchiveWithin is the maximum time to remove an artefact. Collect removes what is left.
const unarchiveWithin = 30 * time.Second

// archived reports whether a snapshot has a copy in the archive of this store.
func (s *Store) archived(r api.Snapshot) bool {
	return s.cfg.Artefacts != nil && r.Archived != "" && r.State == api.SnapshotReady
}

// Archive stores a copy of a snapshot of this host in the archive, with its layers, unless there is one, and returns when other hosts with
// the same rows can start from it.
//
// Errors: KindUnsupported without an archive, those of Use, KindConflict if the snapshot was removed meanwhile, and those of the archive.
// After an error there is no copy.
func (s *Store) Archive(ctx context.Context, id api.SnapshotID) (api.Snapshot, error) {
	if s.cfg.Artefacts == nil {
		return api.Snapshot{}, api.Errorf(api.KindUnsupported, "snapshot %s cannot be stored for other hosts: this daemon has no archive", id).
			WithHint("set daemon.layer-archive to a directory or an object store that all hosts use (docs/layers.md)")
	}
	unlock, err := s.turns.Lock(ctx, "archive "+string(id))
	if err != nil {
		return api.Snapshot{}, err
	}
	defer unlock()
	r, err := s.cfg.Rows.Snapshot(ctx, id)
	if err != nil || s.archived(r) {
		return r, err
	}
	r, dir, done, err := s.Use(ctx, id)
	if err != nil {
		return r, err
	}
	defer done()
	for _, d := range r.Layers {
		err := s.cfg.Layers.Archive(ctx, layer.Digest(d))
		if err != nil && api.KindOf(err) != api.KindUnsupported { // the other host needs a layer of its own, as of an image
			return r, api.Errorf(api.KindOf(err), "snapshot %s: layer %.80s: %w", id, d, err).WithHint("%s", api.HintOf(err))
		}
	}
	names, err := namesIn(dir)
	if err != nil {
		return r, err
	}
	saved, err := s.cfg.Artefacts.Save(ctx, string(id), dir, names, s.parent(ctx, r))
	if err != nil {
		return r, api.Errorf(api.KindOf(err), "store snapshot %s in the archive: %w", id, err).WithHint("%s", api.HintOf(err))
	}
	s.step("archived")
	now, err := s.cfg.Rows.ChangeSnapshot(context.WithoutCancel(ctx), id, func(r *api.Snapshot) error {
		if r.State != api.SnapshotReady {
			return api.Errorf(api.KindConflict, "snapshot %s is %s", id, r.State)
		}
		r.Archived = string(saved.Ref)
		return nil
	})
	if err != nil {
		r.Archived = string(saved.Ref)
		s.unarchive(r)
		return r, err
	}
	s.step("named")
	s.cfg.Logger.Info("stored a snapshot in the archive", "snapshot", id, "bytes", saved.Bytes, "reused", saved.Reused, "stored", saved.Stored)
	return now, nil
}

// namesIn returns the names of all files of a snapshot, its manifest too.
func namesIn(dir string) ([]string, error) {
	d, err := openDir(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := listFiles(d)
	return append(names, manifestName), err
}

// parent returns the artefact that has most of a snapshot's memory: that of the last snapshot of the same sandbox, or of what the sandbox
// started from. Its files are on this host. It returns nil if there is none.
func (s *Store) parent(ctx context.Context, r api.Snapshot) *artefact.Parent {
	rows, err := s.cfg.Rows.ListSnapshots(ctx, false)
	if err != nil {
		return nil
	}
	// The newest first. Another account must not learn what is in the memory of this one.
	for _, from := range []func(o api.Snapshot) bool{
		func(o api.Snapshot) bool { return o.Sandbox == r.Sandbox },
		func(o api.Snapshot) bool { return o.ID == r.Parent },
	} {
		for _, o := range rows {
			if o.ID == r.ID || o.Account != r.Account || !s.archived(o) || !from(o) {
				continue
			}
			if _, err := os.Stat(s.place(o.ID)); err == nil {
				return &artefact.Parent{Ref: artefact.Ref(o.Archived), Dir: s.place(o.ID)}
			}
		}
	}
	return nil
}

// unarchive removes the copy of a snapshot in the background. What remains is collected.
func (s *Store) unarchive(r api.Snapshot) {
	if s.cfg.Artefacts == nil || r.Archived == "" || s.ctx.Err() != nil {
		return
	}
	s.work.Go(func() {
		ctx, cancel := context.WithTimeout(s.ctx, unarchiveWithin)
		defer cancel()
		if err := s.cfg.Artefacts.Remove(ctx, artefact.Ref(r.Archived)); err != nil && s.ctx.Err() == nil {
			s.cfg.Logger.Warn("cannot remove the copy of a snapshot from the archive; it is tried again later", "snapshot", r.ID, "error", err)
		}
	})
}

// Start begins to store snapshots of this host in the archive, if the configuration says so, and to remove from it what no snapshot needs. It comes after
// Recover. Without an archive it does nothing.
func (s *Store) Start() {
	if s.cfg.Artefacts == nil {
		return
	}
	s.work.Go(func() {
		look, collect := time.NewTicker(archiveEvery), time.NewTicker(collectEvery)
		defer look.Stop()
		defer collect.Stop()
		var t trouble
		for s.archiveAll(&t); ; {
			select {
			case <-s.ctx.Done():
				return
			case <-s.saved:
				if t.failures == 0 {
					s.archiveAll(&t)
				}
			case <-look.C:
				s.archiveAll(&t)
				s.sweep()
			case <-collect.C:
				s.collect()
			}
		}
	})
}

// trouble is what keeps snapshots from being stored.
type trouble struct {
	since    time.Time
	failures int
	// skip are those that the archive cannot hold, or that are damaged.
	skip map[api.SnapshotID]bool
}

// logEvery is how many failures there are from one that is logged to the next.
const logEvery = 10

// archiveAll stores what is on this host and has no copy. After a failure the next look continues.
func (s *Store) archiveAll(t *trouble) {
	if !s.cfg.ArchiveAll {
		return
	}
	rows, err := s.cfg.Rows.ListSnapshots(s.ctx, false)
	for _, r := range slices.Backward(rows) { // the oldest first, which the others are compared with
		if err != nil || s.ctx.Err() != nil {
			break
		}
		if r.State != api.SnapshotReady || r.Archived != "" || t.skip[r.ID] {
			continue
		}
		if _, serr := os.Stat(s.path(r.ID)); serr != nil {
			continue // of another host
		}
		switch _, aerr := s.Archive(s.ctx, r.ID); api.KindOf(aerr) {
		case "", api.KindNotFound: // it was removed
		case api.KindUnsupported, api.KindConflict, api.KindInvalid:
			if t.skip == nil {
				t.skip = map[api.SnapshotID]bool{}
			}
			t.skip[r.ID] = true
			s.cfg.Logger.Warn("a snapshot is not stored in the archive", "snapshot", r.ID, "error", aerr)
		default:
			err = aerr
		}
	}
	switch {
	case s.ctx.Err() != nil:
	case err == nil && t.failures > 0:
		s.cfg.Logger.Info("snapshots are stored in the archive again", "since", t.since)
		t.failures = 0
	case err != nil:
		if t.failures == 0 {
			t.since = time.Now()
		}
		if t.failures%logEvery == 0 {
			s.cfg.Logger.Warn("waiting to store snapshots in the archive", "since", t.since, "error", err, "hint", api.HintOf(err))
		}
		t.failures++
	}
}

// collect removes from the archive what no snapshot needs.
func (s *Store) collect() {
	n, err := s.cfg.Artefacts.Collect(s.ctx, func(ctx context.Context) (refs []artefact.Ref, err error) {
		rows, err := s.cfg.Rows.ListSnapshots(ctx, false)
		for _, r := range rows {
			if r.Archived != "" {
				refs = append(refs, artefact.Ref(r.Archived))
			}
		}
		return refs, err
	})
	if err != nil && s.ctx.Err() == nil {
		s.cfg.Logger.Warn("cannot remove what no snapshot needs from the archive", "error", err, "hint", api.HintOf(err))
	}
	if n > 0 {
		s.cfg.Logger.Info("removed objects of removed snapshots from the archive", "objects", n)
	}
}

// sweep removes the files of snapshots that other hosts have removed.
func (s *Store) sweep() {
	own, err := s.List()
	copies, cerr := s.copies()
	if err = errors.Join(err, cerr); err != nil {
		s.cfg.Logger.Warn("cannot list the snapshots of this host", "error", err)
		return
	}
	for _, id := range append(own, copies...) {
		if r, err := s.cfg.Rows.Snapshot(s.ctx, id); err == nil && r.State == api.SnapshotRemoved {
			_ = s.release(r) // it is in the log
		}
	}
}
