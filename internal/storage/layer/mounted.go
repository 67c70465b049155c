package layer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/storage/layer/mount"
	"hortus.dev/internal/storage/storedir"
)

// treeMount is the mount of a packed tree, shared by all who use it in this process.
type treeMount struct {
	file  os.FileInfo   // of the image
	ready chan struct{} // closed when the fields below are set
	image *mount.Image
	err   error
	// checked is closed when the verification has ended, with its result in cause.
	checked chan struct{}
	cause   error
}

// errCorrupt is the cause of a layer that is not what Put wrote.
var errCorrupt = errors.New("its content is not what was stored")

// mounter is how this process mounts images; nil if it does not.
func (s *Store) mounter(ctx context.Context) *mount.Mounter {
	if s.cfg.NoPacking {
		return nil
	}
	s.find.Do(func() {
		var err error
		if s.how, err = mount.Find(context.WithoutCancel(ctx), s.dir); err != nil {
			s.cfg.Logger.Info("layers are plain directories", "reason", err)
		}
	})
	return s.how
}

// mount mounts the image of a tree, unless it is mounted, and names its root. fresh says that
// Put wrote it just now.
func (s *Store) mount(t Tree, fresh bool) (Tree, error) {
	path := filepath.Join(s.dir, string(t.Digest), imageName)
	st, err := os.Stat(path)
	if err == nil && st.Size() != t.Image.Bytes {
		s.setAside(t.Digest, st, errCorrupt)
		return Tree{}, errCorrupt
	}
	if err != nil {
		return Tree{}, err // without an image, it is being removed
	}
	s.mu.Lock()
	m := s.mounts[t.Digest]
	first := m == nil || !os.SameFile(m.file, st) // another process may have made it again
	if first {
		if m != nil {
			s.retired = append(s.retired, m)
		}
		m = &treeMount{file: st, ready: make(chan struct{}), checked: make(chan struct{})}
		s.mounts[t.Digest] = m
	}
	s.mu.Unlock()
	if first {
		m.image, m.err = s.check(m, t, path, fresh)
		if m.err != nil {
			s.mu.Lock()
			if s.mounts[t.Digest] == m {
				delete(s.mounts, t.Digest)
			}
			s.mu.Unlock()
		}
		close(m.ready)
	}
	<-m.ready
	if m.err != nil {
		return Tree{}, m.err
	}
	t.Root, t.mounted = m.image.Path(), m.image
	return t, nil
}

// check verifies an image and mounts it.
func (s *Store) check(m *treeMount, t Tree, path string, fresh bool) (*mount.Image, error) {
	how := s.mounter(context.Background())
	if how == nil {
		return nil, api.Errorf(api.KindUnsupported, "layer %s is packed, and this process cannot mount images", t.Digest).
			WithHint("Run the daemon as root on a kernel with EROFS, or remove the layer and let it be built again.")
	}
	if fresh {
		close(m.checked)
	} else if err := s.verifySoon(m, t, path); err != nil {
		return nil, err
	}
	img, err := how.Mount(path)
	if err != nil {
		return nil, fmt.Errorf("mount it: %w", err)
	}
	return img, nil
}

// verifySoon verifies an image before its first mount. An image that takes longer than the
// configured wait is mounted meanwhile, and set aside if it turns out to be corrupt.
func (s *Store) verifySoon(m *treeMount, t Tree, path string) error {
	s.work.Go(func() {
		defer close(m.checked)
		if m.cause = s.verify(t, path); errors.Is(m.cause, errCorrupt) {
			s.setAside(t.Digest, m.file, m.cause)
		} else if m.cause != nil && s.ctx.Err() == nil {
			s.cfg.Logger.Warn("cannot verify a layer", "layer", t.Digest, "error", m.cause)
		}
	})
	timer := time.NewTimer(s.cfg.VerifyWait)
	defer timer.Stop()
	select {
	case <-m.checked:
		if errors.Is(m.cause, errCorrupt) {
			return m.cause
		}
	case <-timer.C:
	}
	return nil
}

// verify compares an image with its sum.
func (s *Store) verify(t Tree, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	got, err := sum(s.ctx, f, t.Image.Bytes)
	if err == nil && got != t.Image.Sum {
		err = errCorrupt
	}
	return err
}

// setAside renames a corrupt layer, so that its owner builds it again, and removes it when
// nobody uses it: now, or when the store is opened the next time. seen is the file that is
// corrupt; a layer that has another one by now is not touched.
func (s *Store) setAside(d Digest, seen os.FileInfo, cause error) {
	dir := filepath.Join(s.dir, string(d))
	if now, err := os.Stat(filepath.Join(dir, seen.Name())); err != nil || !os.SameFile(now, seen) {
		return
	}
	s.drop(d)
	gone := s.away("corrupt", d)
	if err := os.Rename(dir, gone); err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			s.cfg.Logger.Error("cannot set a corrupt layer aside", "layer", d, "error", err)
		}
		return
	}
	s.corrupt.Add(1)
	s.cfg.Logger.Error("a layer is corrupt and was set aside; it is built again when it is needed", "layer", d, "error", cause)
	f, err := os.Open(gone)
	if err != nil {
		return
	}
	defer f.Close()
	if err := storedir.Lock(f, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return // somebody uses it
	}
	if err := removeAll(gone); err != nil {
		s.cfg.Logger.Warn("cannot remove a corrupt layer", "layer", d, "error", err)
	}
}

// drop forgets the mount of a tree. Anyone who holds a lease keeps it until the store is closed.
func (s *Store) drop(d Digest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.mounts[d]; m != nil {
		s.retired = append(s.retired, m)
		delete(s.mounts, d)
	}
}

// unmount gives up the mount of a tree that nobody uses.
func (s *Store) unmount(d Digest) {
	s.mu.Lock()
	m := s.mounts[d]
	delete(s.mounts, d)
	s.mu.Unlock()
	if m != nil {
		<-m.ready
		if m.image != nil {
			m.image.Close()
		}
	}
}
