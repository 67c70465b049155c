package snapshot

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/storedir"
)

// Write makes a snapshot: its row, then what save writes into dir, an empty
// directory, then everything that makes it last. save fills in what is known of
// the snapshot only afterwards; it may write regular files alone, at most 64, and
// makes no directory. need is about how many bytes they will have.
//
// A snapshot with names is the template of those names from the moment that it is
// ready; what had them before loses them, and is removed with its last one.
//
// The error is save's, or KindExhausted when the disk has no space, KindConflict for
// a layer that is gone. After one the row says broken, and nothing is left on disk.
func (s *Store) Write(ctx context.Context, r api.Snapshot, need int64, save func(ctx context.Context, dir string, r *api.Snapshot) error) (_ api.Snapshot, err error) {
	done, err := s.cfg.Space.ReserveOf(ctx, r.Account, "snapshot "+string(r.ID), need)
	if err != nil {
		return api.Snapshot{}, err
	}
	defer done()
	if !r.ID.Valid() {
		return api.Snapshot{}, api.Errorf(api.KindInvalid, "%.64q is not a snapshot ID", string(r.ID))
	}
	r.State, r.Owner, r.CreatedAt = api.SnapshotSaving, s.cfg.Owner, s.cfg.Now().UTC()
	if err := s.begin(ctx, r); err != nil {
		return api.Snapshot{}, err
	}
	s.step("row")
	defer func() {
		if err != nil {
			s.fail(r, "save failed: "+err.Error())
		}
	}()
	dir, err := storedir.MakeLocked(s.dir, aside+string(r.ID)+"-")
	if err != nil {
		return r, api.Errorf(api.KindInternal, "snapshot %s: %w", r.ID, err)
	}
	// The lock goes last: nobody sweeps what is still being removed.
	defer dir.Close()
	defer os.RemoveAll(dir.Name()) // a no-op once renamed
	s.step("aside")
	err = s.cfg.Space.Guard(ctx, "snapshot "+string(r.ID), func(ctx context.Context) error { return save(ctx, dir.Name(), &r) })
	if err != nil {
		return r, err
	}
	s.step("saved")
	if err := s.finish(ctx, dir, &r); err != nil {
		if ctx.Err() != nil {
			return r, ctx.Err()
		}
		return r, api.Errorf(kindOf(err), "snapshot %s: %w", r.ID, err)
	}
	s.step("replaced")
	select {
	case s.saved <- struct{}{}:
	default: // the next look sees this one too
	}
	return r, nil
}

// kindOf is that of an error of this package or of the disk.
func kindOf(err error) api.Kind {
	if isFull(err) {
		return api.KindExhausted
	}
	return api.KindOf(err)
}

// begin stores the row, whose layers cannot go from here on.
func (s *Store) begin(ctx context.Context, r api.Snapshot) error {
	s.naming.Lock()
	defer s.naming.Unlock()
	if err := s.stands(r); err != nil {
		return err
	}
	return s.cfg.Rows.InsertSnapshot(ctx, r)
}

// stands reports whether the layers of a snapshot are there.
func (s *Store) stands(r api.Snapshot) error {
	for _, d := range r.Layers {
		if _, err := s.cfg.Layers.Resolve(layer.Digest(d)); err != nil {
			if k := api.KindOf(err); k != api.KindNotFound && k != api.KindInvalid {
				return err
			}
			return api.Errorf(api.KindConflict, "snapshot %s needs layer %.80s, which no longer exists", r.ID, d)
		}
	}
	return nil
}

// finish makes what a save wrote last, and the row ready.
func (s *Store) finish(ctx context.Context, dir *os.File, r *api.Snapshot) error {
	names, err := listFiles(dir)
	if err != nil {
		return err
	}
	m := manifest{Version: manifestVersion}
	r.Bytes, r.SharedBytes = 0, 0
	for _, name := range names {
		f, shared, err := s.seal(ctx, dir, name)
		if err != nil {
			return err
		}
		m.Files = append(m.Files, f)
		if shared {
			r.SharedBytes += f.Bytes
		} else {
			r.Bytes += f.Bytes
		}
	}
	s.step("sealed")
	m.Snapshot = *r
	m.Snapshot.State = api.SnapshotReady
	if err := writeManifest(dir, m); err != nil {
		return err
	}
	if err := dir.Sync(); err != nil {
		return err
	}
	s.step("manifest")
	if _, err := check(dir, *r); err != nil {
		return err
	}
	// RENAME_NOREPLACE: an id is never taken twice.
	err = unix.Renameat2(unix.AT_FDCWD, dir.Name(), unix.AT_FDCWD, s.path(r.ID), unix.RENAME_NOREPLACE)
	if err != nil {
		return err
	}
	s.step("renamed")
	if err = storedir.Sync(s.dir); err == nil {
		r.State = api.SnapshotReady
		err = s.publish(context.WithoutCancel(ctx), *r)
	}
	if err != nil {
		r.State = api.SnapshotSaving
		s.discard(r.ID)
		return err
	}
	return nil
}

// seal takes the write bit of a file, flushes it and says what it holds, and whether the file
// is elsewhere too.
func (s *Store) seal(ctx context.Context, dir *os.File, name string) (_ file, shared bool, err error) {
	f, st, err := openIn(dir, name)
	if err != nil {
		return file{}, false, err
	}
	defer f.Close()
	if err := f.Chmod(0o400); err != nil {
		return file{}, false, err
	}
	digest, err := s.sums.of(ctx, f, st, st.Size)
	if err != nil {
		return file{}, false, err
	}
	return file{Name: name, Bytes: st.Size, SHA256: digest}, st.Nlink > 1, f.Sync()
}

func writeManifest(dir *os.File, m manifest) error {
	b, err := json.MarshalIndent(m, "", "\t")
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir.Name(), manifestName), os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o400)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Write(append(b, '\n')); err != nil {
		return err
	}
	return f.Sync()
}

// fail notes that a snapshot is of no use.
func (s *Store) fail(r api.Snapshot, reason string) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	r.State, r.Reason, r.EndedAt = api.SnapshotBroken, reason, s.cfg.Now().UTC()
	if err := s.cfg.Rows.UpdateSnapshot(ctx, r); err != nil {
		s.cfg.Logger.Error("cannot store snapshot record", "snapshot", r.ID, "error", err)
	}
}
