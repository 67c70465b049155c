package snapshot

import (
	"context"
	"errors"
	"slices"

	"hortus.dev/api"
)

// Recover brings rows and directories together after an owner has gone, for which
// gone answers true. What was being saved is ready if it had got its name, which
// only a whole snapshot gets, and broken otherwise; what is gone is broken; what
// should be gone goes; the older of two templates loses a name that both have. A
// snapshot that no row knows is given one, but for that of a paused sandbox. It
// returns how many rows it changed, and comes before the recovery of sandboxes.
func (s *Store) Recover(ctx context.Context, gone func(api.OwnerID) bool) (int, error) {
	rows, err := s.cfg.Rows.ListSnapshots(ctx, false)
	if err != nil {
		return 0, err
	}
	changed := 0
	var errs []error
	known := map[api.SnapshotID]bool{}
	for _, r := range slices.Backward(rows) { // the newest last, which takes names from all others
		known[r.ID] = true
		if r.Owner != "" && r.Owner != s.cfg.Owner && !gone(r.Owner) || r.State == api.SnapshotSaving && r.Owner == s.cfg.Owner {
			continue // another's, or being saved now
		}
		m, err := s.inspect(r.ID)
		var d *damage
		switch {
		case errors.As(err, &d) && s.archived(r):
			errs = append(errs, s.discard(r.ID)) // of another host, or fetched when it is used
			continue
		case errors.As(err, &d):
			reason := d.why
			if r.State == api.SnapshotSaving {
				reason = "the daemon ended while the snapshot was being saved"
			}
			s.fail(r, reason)
			errs = append(errs, s.discard(r.ID))
		case err != nil:
			errs = append(errs, err)
			continue
		case r.State == api.SnapshotSaving:
			r, owner := m.Snapshot, s.cfg.Owner
			r.State, r.Owner = api.SnapshotReady, owner
			errs = append(errs, s.publish(ctx, r))
		default:
			continue
		}
		changed++
	}
	here, err := s.List()
	errs = append(errs, err)
	for _, id := range here {
		if known[id] {
			continue
		}
		did, err := s.adopt(ctx, id)
		if did {
			changed++
		}
		errs = append(errs, err)
	}
	rows, err = s.cfg.Rows.ListSnapshots(ctx, false)
	errs = append(errs, err)
	accounts := map[string]bool{}
	for _, r := range rows {
		if r.Name != "" {
			accounts[r.Account] = true
		}
	}
	for account := range accounts {
		errs = append(errs, s.separate(ctx, account))
	}
	return changed, errors.Join(errs...)
}

// inspect looks at a directory that has a snapshot's name, but for the bytes of its
// files.
func (s *Store) inspect(id api.SnapshotID) (manifest, error) {
	dir, err := openDir(s.path(id))
	if err != nil {
		return manifest{}, err
	}
	defer dir.Close()
	m, err := readManifest(dir)
	if err != nil {
		return m, err
	}
	if m.Snapshot.ID != id {
		return m, damaged("its manifest belongs to another snapshot")
	}
	return check(dir, m.Snapshot)
}

// adopt deals with a directory whose row is final or missing.
func (s *Store) adopt(ctx context.Context, id api.SnapshotID) (bool, error) {
	r, err := s.cfg.Rows.Snapshot(ctx, id)
	switch {
	case err == nil && r.State == api.SnapshotBroken:
		return false, nil // looked at by people, or collected
	case err == nil:
		return false, s.discard(id)
	case api.KindOf(err) != api.KindNotFound:
		return false, err
	}
	m, err := s.inspect(id)
	var d *damage
	if errors.As(err, &d) || err == nil && m.Snapshot.Paused {
		return false, s.discard(id)
	}
	if err != nil {
		return false, err
	}
	r = m.Snapshot
	r.State, r.Owner = api.SnapshotReady, s.cfg.Owner
	return true, s.cfg.Rows.InsertSnapshot(ctx, r)
}
