package snapshot

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"hortus.dev/api"
)

// Remove removes a snapshot for good. While somebody starts from it the row says
// removed at once, and the files go when they are done. One that was removed
// already is no error; one that is broken stays so, without its files.
func (s *Store) Remove(ctx context.Context, id api.SnapshotID, reason string) (api.Snapshot, error) {
	r, err := s.cfg.Rows.Snapshot(ctx, id)
	if err != nil {
		return r, err
	}
	if r.State == api.SnapshotSaving && r.Owner == s.cfg.Owner {
		return r, api.Errorf(api.KindConflict, "snapshot %s is still being saved", id)
	}
	if !r.State.Final() {
		// The row first: whatever a crash leaves is of a snapshot that is removed.
		r.State, r.Reason, r.EndedAt = api.SnapshotRemoved, reason, s.cfg.Now().UTC()
		if err := s.cfg.Rows.UpdateSnapshot(ctx, r); err != nil {
			return r, err
		}
	}
	return r, s.release(r)
}

// release removes the files of a snapshot whose row is final, or has those who start from it do so.
func (s *Store) release(r api.Snapshot) error {
	s.mu.Lock()
	if u := s.uses[r.ID]; u != nil && u.n > 0 {
		u.remove = true
		s.mu.Unlock()
		s.unarchive(r)
		return nil
	}
	delete(s.uses, r.ID)
	s.mu.Unlock()
	defer s.cfg.Space.Ledger().Changed(r.Account)
	s.unarchive(r)
	return s.discard(r.ID)
}

// Forget removes the files of a snapshot that no row knows.
func (s *Store) Forget(id api.SnapshotID) error { return s.discard(id) }

// discard removes a snapshot's directory, and that of a copy that was fetched.
func (s *Store) discard(id api.SnapshotID) error {
	return errors.Join(s.discardDir(id, s.path(id)), s.discardDir(id, s.fetchedPath(id)))
}

// discardDir removes one directory. It is renamed first: what is interrupted must not look whole, and is swept.
func (s *Store) discardDir(id api.SnapshotID, path string) error {
	away := filepath.Join(filepath.Dir(path), gone+string(id))
	err := os.Rename(path, away)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	s.step("away")
	if err == nil {
		err = os.RemoveAll(away)
	}
	if err != nil {
		s.cfg.Logger.Error("the files of a snapshot were not removed", "snapshot", id, "error", err)
		return api.Errorf(api.KindInternal, "remove snapshot %s: %w", id, err).WithHint("the daemon removes the rest at its next start")
	}
	return nil
}
