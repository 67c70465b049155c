package layer

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/storage/layer/erofs"
	"hortus.dev/internal/storage/storedir"
)

const (
	imageName = "image.erofs"

	// A tree with fewer entries and fewer bytes stays a directory: an image of it saves
	// nothing, and needs a descriptor for its mount. See docs/decisions/0069-packed-layers.md.
	packEntries = 256
	packBytes   = 8 << 20
)

// pack replaces the directory of a tree that lies wholly in tmp by an image. It leaves the tree
// as it is where the host cannot mount images, where the tree is small, and where packing fails:
// the directory works too.
func (s *Store) pack(ctx context.Context, tmp string, tree Tree) Tree {
	rel, inside := strings.CutPrefix(tree.Root, tmp+"/")
	if !inside || strings.Contains(rel, "/") || rel == imageName || len(tree.Mounts) > 0 || s.mounter(ctx) == nil {
		return tree
	}
	img, err := writeImage(ctx, filepath.Join(tmp, imageName), tree.Root, s.cfg.PackEntries, s.cfg.PackBytes)
	if err == nil && img != nil {
		err = removeAll(tree.Root)
	}
	if err != nil {
		s.cfg.Logger.Warn("cannot pack a layer; it stays a directory", "error", err)
		err = os.Remove(filepath.Join(tmp, imageName))
	}
	if err != nil || img == nil {
		return tree
	}
	tree.Root, tree.Image = filepath.Join(tmp, imageName), img
	return tree
}

// writeImage writes an image and flushes it; nil for a tree that is too small.
func writeImage(ctx context.Context, path, root string, entries int, bytes int64) (*Image, error) {
	t, err := erofs.Read(ctx, root)
	if err != nil {
		return nil, err
	}
	if i := t.Info(); i.Entries < entries && i.Bytes < bytes {
		return nil, nil
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := t.Write(ctx, f)
	if err != nil {
		return nil, err
	}
	img := &Image{Bytes: info.Image, Files: info.Bytes, Entries: info.Entries}
	// Read back: the sum is of what the kernel has.
	if img.Sum, err = sum(ctx, f, info.Image); err != nil {
		return nil, err
	}
	return img, f.Sync()
}

// flush makes what is in a layer's directory durable.
func flush(dir *os.File, packed bool) error {
	entries, err := os.ReadDir(dir.Name())
	if err != nil {
		return err
	}
	if !packed || len(entries) != 2 { // the image, which is durable, and tree.json
		return unix.Syncfs(int(dir.Fd()))
	}
	f, err := os.Open(filepath.Join(dir.Name(), treeName))
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close(), storedir.Sync(dir.Name()))
}
