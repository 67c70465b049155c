package workspace

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
)

// sizes are the sizes of workspaces and of the layers below them.
type sizes struct {
	mu sync.Mutex
	// changes counts what changed: a size that was measured before a change is not kept.
	changes    int
	workspaces map[api.WorkspaceID]stored
	layers     map[string]int64
}

// maxLayerSizes is the maximum number of layers whose sizes are kept.
const maxLayerSizes = 10_000

// stored is what one workspace takes on the disk, and the layers below what was written in it.
type stored struct {
	bytes int64
	base  []string
}

func (z *sizes) now() int {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.changes
}

func (z *sizes) get(id api.WorkspaceID) (stored, bool) {
	z.mu.Lock()
	defer z.mu.Unlock()
	w, ok := z.workspaces[id]
	return w, ok
}

// last returns the last known size of a workspace.
func (z *sizes) last(rec record) int64 {
	w, _ := z.get(rec.ID)
	return max(w.bytes, rec.Below.Bytes)
}

// set keeps a size that was measured since a number of changes.
func (z *sizes) set(rec record, bytes int64, since int) {
	z.mu.Lock()
	defer z.mu.Unlock()
	if since != z.changes {
		return
	}
	if z.workspaces == nil {
		z.workspaces = map[api.WorkspaceID]stored{}
	}
	z.workspaces[rec.ID] = stored{bytes, rec.base()}
}

// changed forgets the size of a workspace: it was written to, sealed or removed.
func (s *Store) changed(rec record) {
	s.sizes.mu.Lock()
	s.sizes.changes++
	delete(s.sizes.workspaces, rec.ID)
	s.sizes.mu.Unlock()
	s.cfg.Space.Ledger().Changed(rec.Account)
}

// Stored returns what workspaces take on the disk, and each layer that they lie on once. It measures those that were
// written to since the last call; one that a sandbox has counts with its last measure.
func (s *Store) Stored(ctx context.Context, ids []api.WorkspaceID) (int64, error) {
	var sum int64
	layers := map[string]bool{}
	for _, id := range ids {
		w, err := s.stored(ctx, id)
		if api.KindOf(err) == api.KindNotFound {
			continue // it is being made, or removed
		}
		if err != nil {
			return 0, err
		}
		sum += w.bytes
		for _, d := range w.base {
			layers[d] = true
		}
	}
	for d := range layers {
		n, err := s.layerBytes(ctx, d)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

func (s *Store) stored(ctx context.Context, id api.WorkspaceID) (stored, error) {
	if w, ok := s.sizes.get(id); ok {
		return w, nil
	}
	since := s.sizes.now()
	d, err := s.openDir(id)
	if err != nil {
		return stored{}, err
	}
	defer d.Close()
	rec, err := readRecord(d, id)
	if err != nil {
		return stored{}, err
	}
	u, err := s.measure(ctx, int(d.Fd()), rec.Below, Usage{})
	if ctx.Err() != nil {
		return stored{}, ctx.Err()
	}
	if err != nil { // what a guest made cannot keep the rest from being counted
		s.cfg.Logger.Warn("cannot measure a workspace completely", "workspace", id, "error", err)
	}
	s.sizes.set(rec, u.Bytes, since)
	return stored{u.Bytes, rec.base()}, nil
}

// layerBytes returns what a layer takes. Layers do not change.
func (s *Store) layerBytes(ctx context.Context, digest string) (sum int64, err error) {
	s.sizes.mu.Lock()
	sum, ok := s.sizes.layers[digest]
	s.sizes.mu.Unlock()
	if ok {
		return sum, nil
	}
	seen := map[uint64]bool{}
	err = filepath.WalkDir(filepath.Join(s.cfg.Layers.Dir(), digest), func(path string, e fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case errors.Is(err, fs.ErrPermission) && e != nil && e.IsDir():
			return fs.SkipDir // its own size is counted
		case err != nil:
			return err
		}
		var st unix.Stat_t
		if unix.Lstat(path, &st) == nil && !seen[st.Ino] {
			seen[st.Ino] = !e.IsDir() && st.Nlink > 1
			sum += st.Blocks * 512
		}
		return nil
	})
	if err != nil {
		return 0, api.Errorf(api.KindOf(err), "measure layer %s: %w", digest, err)
	}
	s.sizes.mu.Lock()
	defer s.sizes.mu.Unlock()
	if s.sizes.layers == nil || len(s.sizes.layers) >= maxLayerSizes {
		s.sizes.layers = map[string]int64{}
	}
	s.sizes.layers[digest] = sum
	return sum, nil
}
