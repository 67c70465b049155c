package snapshot

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/storage/artefact"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/storedir"
)

// DefaultFetched is the maximum size of what was fetched from the archive, in bytes.
const DefaultFetched = 20 << 30

func (s *Store) fetchedPath(id api.SnapshotID) string {
	return filepath.Join(s.dir, fetched, string(id))
}

// place returns the directory of a snapshot: its own, or that of a copy that was fetched.
func (s *Store) place(id api.SnapshotID) string {
	if _, err := os.Lstat(s.path(id)); err == nil {
		return s.path(id)
	}
	if _, err := os.Lstat(s.fetchedPath(id)); err == nil {
		return s.fetchedPath(id)
	}
	return s.path(id)
}

func (s *Store) isHere(id api.SnapshotID) bool {
	_, err := os.Lstat(s.place(id))
	return err == nil
}

// copies names the snapshots that were fetched.
func (s *Store) copies() ([]api.SnapshotID, error) {
	return storedir.List[api.SnapshotID](what, filepath.Join(s.dir, fetched))
}

// bringLayers fetches the layers of a snapshot that are not here.
func (s *Store) bringLayers(ctx context.Context, r api.Snapshot) error {
	for _, d := range r.Layers {
		if !s.archived(r) {
			break
		}
		if _, err := s.cfg.Layers.Resolve(layer.Digest(d)); err == nil {
			continue
		}
		err := s.cfg.Layers.Fetch(ctx, layer.Digest(d), func(string) error { return nil })
		switch api.KindOf(err) {
		case "", api.KindNotFound, api.KindUnsupported: // stands says what is missing
		default:
			return api.Errorf(api.KindOf(err), "snapshot %s needs layer %.80s: %w", r.ID, d, err).WithHint("%s", api.HintOf(err))
		}
	}
	return s.stands(r)
}

// bring counts one who starts from a snapshot, and fetches it if it is not here.
func (s *Store) bring(ctx context.Context, r api.Snapshot) (*use, error) {
	need := r.Bytes + r.SharedBytes
	if s.archived(r) && !s.isHere(r.ID) {
		s.evict(ctx, need) // without the turn of this one: who evicts waits for those of others
	}
	unlock, err := s.turns.Lock(ctx, string(r.ID))
	if err != nil {
		return nil, err
	}
	defer unlock()
	u := s.hold(r.ID)
	if u == nil {
		return nil, api.Errorf(api.KindNotFound, "snapshot %s was removed", r.ID)
	}
	if !s.archived(r) {
		return u, nil
	}
	if s.isHere(r.ID) {
		now := time.Now()
		_ = os.Chtimes(s.fetchedPath(r.ID), now, now) // fails for what was not fetched
		return u, nil
	}
	if err := s.fetch(ctx, u, r, need); err != nil {
		s.letGo(r.ID, u)
		return nil, err
	}
	return u, nil
}

// fetch gets a snapshot from the archive. The row names its manifest, which names all else, so that every byte is compared with what
// the row stands for.
func (s *Store) fetch(ctx context.Context, u *use, r api.Snapshot, need int64) error {
	name := "the copy of snapshot " + string(r.ID)
	if err := s.cfg.Space.Check(name, need); err != nil {
		return err
	}
	dir, err := storedir.MakeLocked(filepath.Join(s.dir, fetched), aside+string(r.ID)+"-")
	if err != nil {
		return api.Errorf(api.KindInternal, "snapshot %s: %w", r.ID, err)
	}
	defer dir.Close()
	defer os.RemoveAll(dir.Name()) // a no-op once renamed
	s.step("fetching")
	err = s.cfg.Space.Guard(ctx, name, func(ctx context.Context) error {
		return s.cfg.Artefacts.Restore(ctx, artefact.Ref(r.Archived), string(r.ID), need+maxManifest, dir.Name())
	})
	if api.KindOf(err) == api.KindNotFound {
		err = api.Errorf(api.KindConflict, "it is not in the archive any more")
	}
	var m manifest
	if err == nil {
		m, err = check(dir, r)
	}
	var seen []print
	if err == nil {
		seen, err = prints(dir, m.Files)
	}
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		kind := kindOf(err)
		var d *damage
		if kind == api.KindInvalid || errors.As(err, &d) {
			kind = api.KindConflict
		}
		return api.Errorf(kind, "fetch snapshot %s from the archive %s: %w", r.ID, s.cfg.Artefacts, err).WithHint("%s", api.HintOf(err))
	}
	s.step("fetched")
	if err := unix.Renameat2(unix.AT_FDCWD, dir.Name(), unix.AT_FDCWD, s.fetchedPath(r.ID), unix.RENAME_NOREPLACE); err != nil {
		return api.Errorf(kindOf(err), "snapshot %s: %w", r.ID, err)
	}
	u.looking.Lock()
	u.seen = seen // every byte has been compared
	u.looking.Unlock()
	return nil
}

// evict removes what was fetched and is not used, the least recently used first, until so many bytes can be fetched.
func (s *Store) evict(ctx context.Context, need int64) {
	ids, err := s.copies()
	if err != nil {
		s.cfg.Logger.Warn("cannot list what was fetched from the archive", "error", err)
		return
	}
	type copied struct {
		id    api.SnapshotID
		used  time.Time
		bytes int64
	}
	var all []copied
	total := need
	for _, id := range ids {
		st, err := os.Lstat(s.fetchedPath(id))
		if err != nil {
			continue
		}
		c := copied{id, st.ModTime(), sizeOf(s.fetchedPath(id))}
		total += c.bytes
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b copied) int { return a.used.Compare(b.used) })
	for _, c := range all {
		if total <= s.cfg.FetchedBytes {
			return
		}
		if s.evictOne(ctx, c.id) {
			total -= c.bytes
		}
	}
}

// evictOne removes a copy, unless somebody starts from it.
func (s *Store) evictOne(ctx context.Context, id api.SnapshotID) bool {
	unlock, err := s.turns.Lock(ctx, string(id))
	if err != nil {
		return false
	}
	defer unlock()
	s.mu.Lock()
	u := s.uses[id]
	busy := u != nil && u.n > 0
	s.mu.Unlock()
	return !busy && s.discardDir(id, s.fetchedPath(id)) == nil
}

// sizeOf returns what the files of a directory take on the disk.
func sizeOf(dir string) (sum int64) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		var st unix.Stat_t
		if unix.Lstat(filepath.Join(dir, e.Name()), &st) == nil {
			sum += st.Blocks * 512
		}
	}
	return sum
}
