package microvm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/backend/leased"
	"hortus.dev/internal/backend/microvm/kernel"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/layer/erofs"
)

// images opens the image of each layer.
func (b *Backend) images(ctx context.Context, r *leased.Layers) (files []*os.File, err error) {
	for _, t := range r.Trees {
		f, err := b.image(ctx, t)
		if err != nil {
			closeAll(files)
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// image opens the image of a layer: that of the store, or one that is made when the layer is first used.
func (b *Backend) image(ctx context.Context, t layer.Tree) (*os.File, error) {
	if t.Packed() {
		return b.cfg.Layers.OpenImage(t)
	}
	unlock, err := b.making.Lock(ctx, string(t.Digest))
	if err != nil {
		return nil, err
	}
	defer unlock()
	path := filepath.Join(b.cfg.Images, string(t.Digest))
	f, err := os.Open(path)
	if !errors.Is(err, os.ErrNotExist) {
		return f, err
	}
	b.removeStale()
	if err := b.writeImage(ctx, path, t); err != nil {
		return nil, api.Errorf(api.KindOf(err), "make the disk of layer %s: %w", t.Digest, err).WithHint("%s", api.HintOf(err))
	}
	return os.Open(path)
}

// writeImage writes the image of a tree, with the trees that are mounted in it.
func (b *Backend) writeImage(ctx context.Context, path string, t layer.Tree) error {
	var mounts []erofs.Mount
	for _, m := range t.Mounts {
		mounts = append(mounts, erofs.Mount{Target: m.Target, Dirs: m.Lowers})
	}
	merged, err := erofs.Merge(ctx, t.Root, mounts)
	if err != nil {
		return err
	}
	what, size := "the disk of a layer", merged.Info().Bytes
	if err := b.cfg.Space.Check(what, size); err != nil {
		return err
	}
	began := time.Now()
	b.log.Info("make the disk of a layer", "layer", t.Digest, "bytes", size, "files", merged.Info().Entries)
	err = replace(path, 0o600, func(f *os.File) error {
		return b.cfg.Space.Guard(ctx, what, func(ctx context.Context) error {
			_, err := merged.Write(ctx, f)
			return err
		})
	})
	b.log.Info("made the disk of a layer", "layer", t.Digest, "took", time.Since(began), "error", err)
	return err
}

// replace writes a file beside a path, and renames it when it is complete.
func replace(path string, mode os.FileMode, write func(*os.File) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), "new-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails after the rename
	err = errors.Join(write(f), f.Chmod(mode), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	return err
}

// removeStale removes the images of layers that this machine does not have any more. Machines that use one have it open.
func (b *Backend) removeStale() {
	entries, err := os.ReadDir(b.cfg.Images)
	if err != nil {
		return // the creation of the image fails too, and says why
	}
	for _, e := range entries {
		if d := layer.Digest(e.Name()); d.Valid() && !b.cfg.Layers.Has(d) {
			os.Remove(filepath.Join(b.cfg.Images, e.Name()))
		}
	}
}

// initramfs opens the initial file system of a machine, its kernel's modules and the guest, which is made when it is first used.
func (b *Backend) initramfs(ctx context.Context, h *host) (*os.File, error) {
	unlock, err := b.making.Lock(ctx, "initramfs")
	if err != nil {
		return nil, err
	}
	defer unlock()
	name := filepath.Join(b.cfg.Images, "initramfs-"+h.kernel.Digest[:16]+"-"+h.guest[:16])
	f, err := os.Open(name)
	if !errors.Is(err, os.ErrNotExist) {
		return f, err
	}
	old, err := filepath.Glob(filepath.Join(b.cfg.Images, "initramfs-*"))
	for _, o := range old { // running machines have it in memory
		err = errors.Join(err, os.Remove(o))
	}
	if err != nil {
		return nil, err
	}
	guest, err := os.ReadFile(b.cfg.Guest)
	if err != nil {
		return nil, err
	}
	modules, err := os.Open(h.kernel.Modules)
	if err != nil {
		return nil, err
	}
	defer modules.Close()
	err = replace(name, 0o644, func(f *os.File) error { // QEMU's users read it
		if _, err := f.ReadFrom(modules); err != nil {
			return err
		}
		return kernel.WriteProgram(f, guest)
	})
	if err != nil {
		return nil, fmt.Errorf("write the initial file system of machines: %w", err)
	}
	return os.Open(name)
}
