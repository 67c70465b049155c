package snapshot

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
)

// use is what the store knows of a snapshot that is or was started from.
type use struct {
	n      int  // who starts from it now
	remove bool // it goes when nobody does

	// looking is held while the files are read.
	looking sync.Mutex
	// seen are the files as they were when every byte of them was right; nil
	// before.
	seen []print
}

// print is what changes when a file does. The time of the last change of the inode is no part
// of it: it changes with each link.
type print struct {
	name  string
	ino   uint64
	size  int64
	mtime unix.Timespec
}

func (s *Store) path(id api.SnapshotID) string { return filepath.Join(s.dir, string(id)) }

// Use returns the directory of a snapshot, which was checked and stays until done is
// called. One that is not on this host is fetched from the archive. Its manifest, and the names and lengths of its files, are looked at each
// time. The first time in the life of the store, and again when a file was touched,
// every byte is read.
//
// Errors: KindNotFound for one that is not there, KindConflict for one that is
// not ready, whose files are not as they were, or whose layers are gone, KindExhausted if the disk is full, and
// those of the archive.
func (s *Store) Use(ctx context.Context, id api.SnapshotID) (r api.Snapshot, dir string, done func(), err error) {
	if r, err = s.cfg.Rows.Snapshot(ctx, id); err != nil {
		return r, "", nil, err
	}
	if err := usable(r); err != nil {
		return r, "", nil, err
	}
	if err := s.bringLayers(ctx, r); err != nil {
		return r, "", nil, err
	}
	u, err := s.bring(ctx, r)
	if err != nil {
		return r, "", nil, err
	}
	err = s.look(ctx, u, r)
	var d *damage
	if errors.As(err, &d) && s.archived(r) {
		s.cfg.Logger.Warn("a snapshot is damaged, and fetched from the archive", "snapshot", id, "reason", d.why)
		s.letGo(id, u)
		if err := s.discard(id); err != nil {
			return r, "", nil, err
		}
		if u, err = s.bring(ctx, r); err != nil {
			return r, "", nil, err
		}
		err = s.look(ctx, u, r)
	}
	if err != nil {
		s.letGo(id, u)
		if !errors.As(err, &d) {
			if ctx.Err() != nil {
				return r, "", nil, ctx.Err()
			}
			return r, "", nil, api.Errorf(api.KindInternal, "snapshot %s: %w", id, err)
		}
		if host := s.elsewhere(ctx, r); host != "" && !s.archived(r) {
			return r, "", nil, api.Errorf(api.KindUnavailable, "snapshot %s is on the disk of node %s only", id, host).
				WithHint("use it when that node is back; with an archive, the setting daemon.snapshot-archive stores snapshots for all nodes")
		}
		if !s.archived(r) { // another host may have it
			s.fail(r, d.why)
		}
		return r, "", nil, api.Errorf(api.KindConflict, "snapshot %s is broken: %s", id, d.why).
			WithHint("remove it and take a new snapshot")
	}
	return r, s.place(id), sync.OnceFunc(func() { s.letGo(id, u) }), nil
}

// elsewhere returns the name of the other host that a snapshot was made on; empty if it was made here.
func (s *Store) elsewhere(ctx context.Context, r api.Snapshot) string {
	if s.cfg.Elsewhere == nil || r.Owner == "" || r.Owner == s.cfg.Owner {
		return ""
	}
	return s.cfg.Elsewhere(ctx, r.Owner)
}

func usable(r api.Snapshot) error {
	switch r.State {
	case api.SnapshotReady:
		return nil
	case api.SnapshotSaving:
		return api.Errorf(api.KindConflict, "snapshot %s is still being saved", r.ID)
	case api.SnapshotBroken:
		return api.Errorf(api.KindConflict, "snapshot %s is broken: %s", r.ID, r.Reason).WithHint("remove it and take a new snapshot")
	}
	return api.Errorf(api.KindNotFound, "snapshot %s was removed (%s)", r.ID, r.Reason)
}

// hold counts one who starts from a snapshot; nil when it is to go.
func (s *Store) hold(id api.SnapshotID) *use {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.uses[id]
	if u == nil {
		u = &use{}
		s.uses[id] = u
	}
	if u.remove {
		return nil
	}
	u.n++
	return u
}

func (s *Store) letGo(id api.SnapshotID, u *use) {
	s.mu.Lock()
	u.n--
	last := u.n == 0 && u.remove
	if last {
		delete(s.uses, id)
	}
	s.mu.Unlock()
	if last {
		s.discard(id)
	}
}

// look compares a snapshot with its manifest and its row.
func (s *Store) look(ctx context.Context, u *use, r api.Snapshot) error {
	u.looking.Lock()
	defer u.looking.Unlock()
	dir, err := openDir(s.place(r.ID))
	if err != nil {
		return err
	}
	defer dir.Close()
	m, err := check(dir, r)
	if err != nil {
		return err
	}
	now, err := prints(dir, m.Files)
	if err != nil {
		return err
	}
	if u.seen != nil && slices.Equal(u.seen, now) {
		return nil
	}
	for _, f := range m.Files {
		if err := s.verify(ctx, dir, f); err != nil {
			return err
		}
	}
	u.seen = now
	return nil
}

// openDir opens a snapshot's directory, which is no link.
func openDir(path string) (*os.File, error) {
	dir, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) {
		return nil, damaged("its directory is missing")
	}
	return dir, err
}

// check compares a directory with its manifest, but for the bytes of the files,
// and the manifest with the row.
func check(dir *os.File, r api.Snapshot) (manifest, error) {
	m, err := readManifest(dir)
	if err != nil {
		return m, err
	}
	if o := m.Snapshot; o.ID != r.ID || o.Kind != r.Kind || o.Image != r.Image || o.Sandbox != r.Sandbox || o.Account != r.Account ||
		o.Paused != r.Paused || o.Limits != r.Limits || !slices.Equal(o.Layers, r.Layers) {
		return m, damaged("its manifest belongs to another snapshot")
	}
	names, err := listFiles(dir)
	if err != nil {
		return m, err
	}
	if len(names) != len(m.Files) {
		return m, damaged("it contains %d files, expected %d", len(names), len(m.Files))
	}
	for _, want := range m.Files {
		f, st, err := openIn(dir, want.Name)
		if err != nil {
			return m, err
		}
		f.Close()
		if st.Size != want.Bytes {
			return m, damaged("%s has %d bytes, expected %d", want.Name, st.Size, want.Bytes)
		}
	}
	return m, nil
}

func prints(dir *os.File, files []file) ([]print, error) {
	out := []print{}
	for _, f := range files {
		o, st, err := openIn(dir, f.Name)
		if err != nil {
			return nil, err
		}
		o.Close()
		out = append(out, print{f.Name, st.Ino, st.Size, st.Mtim})
	}
	return out, nil
}

func (s *Store) verify(ctx context.Context, dir *os.File, want file) error {
	f, st, err := openIn(dir, want.Name)
	if err != nil {
		return err
	}
	defer f.Close()
	digest, err := s.sums.of(ctx, f, st, want.Bytes)
	if err != nil {
		return err
	}
	if digest != want.SHA256 {
		return damaged("%s has a wrong checksum", want.Name)
	}
	return nil
}

func isFull(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }
