package artefact

import (
	"context"
	"errors"
	"math"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
)

// maxObjects is the maximum number of objects that are collected.
const maxObjects = 4 << 20

// Collect removes objects that were without a name for an hour: manifests that live does not name, and chunks that no manifest
// names. It knows since when by the collections of this Store; the first one removes nothing. Several hosts may collect at the same
// time. If a manifest cannot be read, no chunk is removed.
func (s *Store) Collect(ctx context.Context, live func(context.Context) ([]Ref, error)) (removed int, err error) {
	s.collecting.Lock()
	defer s.collecting.Unlock()
	names, err := s.cfg.Blobs.List(ctx, s.prefix, maxObjects)
	if err != nil {
		return 0, err
	}
	if len(names) >= maxObjects {
		return 0, api.Errorf(api.KindExhausted, "the archive has %d objects %s*, more than can be collected", len(names), s.prefix)
	}
	// After the list: a manifest of the list that was just stored is named by a row now, or will be within the grace.
	refs, err := live(ctx)
	if err != nil {
		return 0, err
	}
	named := map[string]bool{}
	for _, r := range refs {
		named[s.manifestBlob(r)] = true
	}
	var unread error
	manifests := map[Ref]bool{}
	for _, name := range names {
		text, ok := strings.CutSuffix(strings.TrimPrefix(name, s.prefix), manifestSuffix)
		if r := Ref(text); ok && r.Valid() {
			manifests[r] = true
			chunks, err := s.namedBy(ctx, r)
			if err != nil && api.KindOf(err) != api.KindNotFound { // removed since the list
				unread = errors.Join(unread, err)
			}
			for _, c := range chunks {
				named[s.chunkBlob(c)] = true
			}
		}
	}
	for r := range s.chunksOf {
		if !manifests[r] {
			delete(s.chunksOf, r)
		}
	}
	now := s.cfg.Now()
	since := map[string]time.Time{}
	for _, name := range names {
		if named[name] || unread != nil && !strings.HasSuffix(name, manifestSuffix) {
			continue
		}
		at, ok := s.unnamed[name]
		if !ok {
			at = now
		}
		if since[name] = at; now.Sub(at) < Grace {
			continue
		}
		if err := s.cfg.Blobs.Remove(ctx, name); err != nil {
			return removed, err
		}
		delete(since, name)
		removed++
	}
	s.unnamed = since
	return removed, unread
}

// namedBy returns the digests of the chunks that a manifest names.
func (s *Store) namedBy(ctx context.Context, r Ref) ([]string, error) {
	if c, ok := s.chunksOf[r]; ok {
		return c, nil
	}
	m, err := s.manifest(ctx, r, "", math.MaxInt64)
	if err != nil {
		return nil, err
	}
	digests := make([]string, len(m.Chunks))
	for i, c := range m.Chunks {
		digests[i] = c.SHA256
	}
	s.chunksOf[r] = digests
	return digests, nil
}

func errIsFull(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }
