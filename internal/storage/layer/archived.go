package layer

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/storage/storedir"
)

// Archive keeps trees in a portable form, such as package archive does. Its methods may be
// called from several goroutines.
type Archive interface {
	// Save saves the tree in a directory, unless it has it: KindUnsupported for a tree that it
	// cannot hold.
	Save(ctx context.Context, name, root string) error
	// Restore writes a tree into an empty directory: KindNotFound if it does not have it,
	// KindInvalid if what it has is damaged. After an error the directory has an unspecified
	// part of it.
	Restore(ctx context.Context, name, to string) error
	// Replace saves the tree in a directory in the place of one that is damaged, unless it can
	// be restored into scratch, an empty directory.
	Replace(ctx context.Context, name, root, scratch string) error
}

// archivePause is how long an archive that could not be reached is not asked: each layer would
// wait for it.
const archivePause = time.Minute

// archive returns the archive; nil if there is none, or if it could not be reached a moment ago.
func (s *Store) archive() Archive {
	if s.cfg.Archive == nil || time.Now().UnixNano() < s.archiveDown.Load() {
		return nil
	}
	return s.cfg.Archive
}

// unreached notes that the archive could not be reached, if that is what an error says.
func (s *Store) unreached(err error) {
	switch api.KindOf(err) {
	case api.KindUnavailable, api.KindTimeout, api.KindUnauthenticated, api.KindDenied:
		s.archiveDown.Store(time.Now().Add(archivePause).UnixNano())
	}
}

// portable reports whether a tree with that digest is the same on every host.
func portable(d Digest) bool { return strings.HasPrefix(string(d), "sha256-") }

// archived is what the archive has of a tree.
type archived int

const (
	absent   archived = iota
	restored          // it is restored
	damaged           // it cannot be restored, and is to be replaced
)

// restore gets a tree from the archive, if there is one. An archive that fails does not keep
// the tree from being built; tmp is empty then.
func (s *Store) restore(ctx context.Context, d Digest, tmp string) (_ Tree, has archived, err error) {
	a := s.archive()
	if a == nil || !portable(d) {
		return Tree{}, absent, nil
	}
	root := filepath.Join(tmp, "root")
	if err := os.Mkdir(root, 0o755); err != nil {
		return Tree{}, absent, api.Errorf(api.KindInternal, "layer %s: %w", d, err)
	}
	err = a.Restore(ctx, string(d), root)
	if err == nil {
		s.cfg.Logger.Info("restored a layer from its archive", "layer", d)
		return Tree{Root: root}, restored, nil
	}
	if rerr := removeAll(root); rerr != nil {
		return Tree{}, absent, api.Errorf(api.KindInternal, "layer %s: %w", d, rerr)
	}
	if api.KindOf(err) == api.KindInvalid {
		has = damaged
	}
	if api.KindOf(err) != api.KindNotFound && ctx.Err() == nil {
		s.unreached(err)
		s.cfg.Logger.Warn("cannot restore a layer from its archive; it is built", "layer", d, "error", err)
	}
	return Tree{}, has, ctx.Err()
}

// save saves a tree that was built, in the background. A lease holds it meanwhile.
func (s *Store) save(t Tree, has archived) {
	a := s.archive()
	if a == nil || !portable(t.Digest) || !t.Packed() || t.Path != "" {
		return
	}
	s.work.Go(func() {
		// It waits for Put, which has the lock.
		t, lease, err := s.Lease(t.Digest)
		if err != nil {
			return // it was removed
		}
		defer lease.Release()
		if has == damaged {
			err = s.replace(a, t)
		} else {
			err = a.Save(s.ctx, string(t.Digest), t.Root)
		}
		switch {
		case err == nil || s.ctx.Err() != nil:
		case api.KindOf(err) == api.KindUnsupported:
			s.cfg.Logger.Debug("a layer stays without an archive", "layer", t.Digest, "reason", err)
		default:
			s.unreached(err)
			s.cfg.Logger.Warn("cannot save the archive of a layer", "layer", t.Digest, "error", err)
		}
	})
}

// Archive saves a tree in the archive, unless it has it, and returns when it is stored.
//
// Errors: KindUnsupported without an archive and for a tree that it cannot hold, KindNotFound if the tree is not there or is
// corrupt, and those of the archive.
func (s *Store) Archive(ctx context.Context, d Digest) error {
	if s.cfg.Archive == nil || !portable(d) {
		return noArchive(d)
	}
	if err := s.Verified(ctx, d); err != nil {
		return err
	}
	t, lease, err := s.Lease(d)
	if err != nil {
		return err
	}
	defer lease.Release()
	return s.cfg.Archive.Save(ctx, string(d), t.Root)
}

// Fetch gets a tree from the archive, unless it is there. finish may change the files, all of which are below root.
//
// Errors: KindUnsupported without an archive, KindNotFound if the archive does not have the tree, KindInvalid if what it has is
// damaged, and those of the archive.
func (s *Store) Fetch(ctx context.Context, d Digest, finish func(root string) error) error {
	if s.cfg.Archive == nil || !portable(d) {
		return noArchive(d)
	}
	_, err := s.put(ctx, d, func(ctx context.Context, tmp string) (Tree, archived, error) {
		root := filepath.Join(tmp, "root")
		err := os.Mkdir(root, 0o755)
		if err == nil {
			err = s.cfg.Archive.Restore(ctx, string(d), root)
		}
		if err == nil {
			err = finish(root)
		}
		return Tree{Root: root}, restored, err
	})
	return err
}

func noArchive(d Digest) error {
	return api.Errorf(api.KindUnsupported, "layer %.80s cannot be in an archive: this daemon has none, or the layer shows directories of the host", string(d)).
		WithHint("set daemon.layer-archive to a directory or an object store that all hosts use (docs/layers.md)")
}

// replace replaces the damaged archive of a tree that was built, if the tree is what was written.
func (s *Store) replace(a Archive, t Tree) error {
	if err := s.Verified(s.ctx, t.Digest); err != nil {
		return err
	}
	lock, err := storedir.MakeLocked(s.dir, aside)
	if err != nil {
		return api.Errorf(api.KindInternal, "layer %s: %w", t.Digest, err)
	}
	defer removeAll(lock.Name())
	defer lock.Close()
	if err := a.Replace(s.ctx, string(t.Digest), t.Root, lock.Name()); err != nil {
		return err
	}
	s.cfg.Logger.Info("the damaged archive of a layer is replaced", "layer", t.Digest)
	return nil
}
