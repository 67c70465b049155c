package microvm

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"

	"hortus.dev/api"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/layer/erofs"
	"hortus.dev/internal/storage/oci/settings"
)

// root is what a sandbox starts from: leased layers, and the images that its disks are.
type root struct {
	trees    []layer.Tree
	leases   []*layer.Lease
	settings *settings.Settings // of a container image; nil for others
}

// lease leases layers until release.
func (b *Backend) lease(layers []layer.Digest) (_ *root, err error) {
	if len(layers) == 0 {
		return nil, api.Errorf(api.KindInvalid, "a sandbox needs at least one layer")
	}
	r := &root{}
	defer func() {
		if err != nil {
			r.release()
		}
	}()
	for _, d := range layers {
		t, l, err := b.cfg.Layers.Lease(d)
		if err != nil {
			return nil, err
		}
		r.trees, r.leases = append(r.trees, t), append(r.leases, l)
	}
	r.settings, err = settings.Read(b.cfg.Layers, layers[len(layers)-1])
	return r, err
}

func (r *root) release() {
	for _, l := range r.leases {
		l.Release()
	}
	r.leases = nil
}

// path is the PATH of commands: that of the uppermost layer which has one.
func (r *root) path() (path string) {
	for _, t := range r.trees {
		path = cmp.Or(t.Path, path)
	}
	return path
}

// env is the environment of commands: the image's variables and, above them, those of the sandbox.
func (r *root) env(env map[string]string) map[string]string {
	if r.settings == nil || len(r.settings.Env) == 0 {
		return env
	}
	all := maps.Clone(r.settings.Env)
	maps.Copy(all, env)
	return all
}

// images opens the image of each layer.
func (b *Backend) images(ctx context.Context, r *root) (files []*os.File, err error) {
	for _, t := range r.trees {
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
	b.log.Info("make the disk of a layer", "layer", t.Digest)
	b.removeStale()
	if err := writeImage(ctx, path, t); err != nil {
		return nil, api.Errorf(api.KindOf(err), "make the disk of layer %s: %w", t.Digest, err)
	}
	return os.Open(path)
}

// writeImage writes the image of a tree, with the trees that are mounted in it.
func writeImage(ctx context.Context, path string, t layer.Tree) error {
	f, err := os.CreateTemp(filepath.Dir(path), "new-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails after the rename
	defer f.Close()
	var mounts []erofs.Mount
	for _, m := range t.Mounts {
		mounts = append(mounts, erofs.Mount{Target: m.Target, Dirs: m.Lowers})
	}
	if _, err := erofs.WriteMerged(ctx, f, t.Root, mounts); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
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
