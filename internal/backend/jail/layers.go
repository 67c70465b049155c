package jail

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail/forklayer"
	"hortus.dev/internal/backend/jail/image"
	"hortus.dev/internal/backend/jail/launch"
	"hortus.dev/internal/backend/jail/upper"
	"hortus.dev/internal/backend/jail/workdir"
	"hortus.dev/internal/sandbox"
)

// Below these sizes of what a sandbox wrote, a fork makes no layer of it: copying it costs little, and in a layer
// it would be one of few.
const (
	layerBytes = 8 << 20
	layerFiles = 256
)

// fromLayers is what a machine has from the forks of its ancestors.
type fromLayers struct {
	// dir has the files of layers, the top one first; "" if there are none.
	dir    string
	layers image.Layers
	// mounts are those that this process has opened for it.
	mounts []*forklayer.Layer
}

// begin opens the layers of an image for a machine that is started from it, and links them into the machine's
// own directory. release and the removal of that directory undo it, also after an error.
func (f *fromLayers) begin(ctx context.Context, b *Backend, id api.SandboxID, from string) error {
	layers, err := image.ReadLayers(from)
	if err != nil || len(layers) == 0 {
		return err
	}
	f.dir, f.layers = b.basesDir(id), layers
	if err := image.KeepLayers(from, f.dir, layers); err != nil {
		return api.Errorf(api.KindInternal, "sandbox %s: the layers of its image: %w", id, err)
	}
	f.mounts, err = f.open(ctx, b, id)
	return err
}

// describe tells the launcher about the layers, which take some of the machine's disk.
func (f *fromLayers) describe(r *launch.Request) error {
	r.Sealed = f.mounts
	r.SealedBytes, r.SealedFiles = f.size()
	if min := int64(1 << 20); r.SealedBytes > r.Spec.Limits.DiskBytes-min || r.SealedFiles > workdir.Inodes(r.Spec.Limits.DiskBytes)/2 {
		return api.Errorf(api.KindExhausted, "sandbox %s: its parent's files take %d bytes, its disk has %d", r.Spec.ID, r.SealedBytes, r.Spec.Limits.DiskBytes)
	}
	return nil
}

// open mounts the layers, unless they are mounted. The caller closes them.
func (f *fromLayers) open(ctx context.Context, b *Backend, id api.SandboxID) (out []*forklayer.Layer, err error) {
	for _, x := range f.layers {
		l, err := b.forks.Open(ctx, f.dir, x.Name, filepath.Join(f.dir, image.LayerFile(x.Name)))
		if err != nil {
			forklayer.Close(out)
			return nil, api.Errorf(api.KindInternal, "sandbox %s: mount a layer of its parent: %w", id, err)
		}
		out = append(out, l)
	}
	return out, nil
}

// adopt finds the layers of a machine that another process started.
func (f *fromLayers) adopt(b *Backend, id api.SandboxID) (err error) {
	f.dir = b.basesDir(id)
	f.layers, err = image.ReadLayers(f.dir)
	return err
}

func (f *fromLayers) release() {
	forklayer.Close(f.mounts)
	f.mounts = nil
}

// size is what the layers take of the machine's disk.
func (f *fromLayers) size() (bytes, files int64) { return f.layers.Size() }

// tree is what a machine wrote over its root, with what it has from its ancestors. done closes it.
func (m *machine) tree(ctx context.Context, disk int) (t image.Tree, done func(), err error) {
	var undo cleanup
	done = undo.run
	defer func() {
		done = undo.run
		if err != nil {
			undo.run()
		}
	}()
	t.Disk = disk
	if len(m.from.layers) == 0 {
		return t, done, nil
	}
	open := func(dir string) (int, error) {
		fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err == nil {
			undo.add(func() { unix.Close(fd) })
		}
		return fd, err
	}
	mounts, err := m.from.open(ctx, m.b, m.id)
	if err != nil {
		return t, done, err
	}
	undo.add(func() { forklayer.Close(mounts) })
	for _, l := range mounts {
		fd, err := open(l.Path())
		if err != nil {
			return t, done, err
		}
		t.Below = append(t.Below, fd)
	}
	trees, err := m.b.launcher.Resolve(m.digests)
	if err != nil {
		return t, done, err
	}
	undo.add(func() { m.b.launcher.Release(trees) })
	for _, dir := range launch.Roots(trees) {
		fd, err := open(dir)
		if err != nil {
			return t, done, err
		}
		t.Under = append(t.Under, fd)
	}
	return t, done, nil
}

// shares reports whether the children of a fork may share what the machine has, instead of a copy. They have room
// then to write all of it again.
func (m *machine) shares(ctx context.Context, dir string, o sandbox.SaveOptions) bool {
	if !o.Fork || o.CopyMemory || m.workdir != nil || !m.b.Root() {
		return false
	}
	bytes, files := m.from.size()
	own, inodes := m.disk.used()
	if own < 0 || bytes+own > m.limits.DiskBytes/2 || files+inodes > workdir.Inodes(m.limits.DiskBytes)/2 {
		return false
	}
	if why := m.b.forks.Can(ctx, dir); why != nil {
		m.b.log.Debug("the files of a fork are copied", "sandbox", m.id, "reason", why)
		return false
	}
	return true
}

// writeFork writes the image of a fork: what the machine has from its ancestors stays in layers, and what it wrote becomes one, unless
// it is little.
func (m *machine) writeFork(ctx context.Context, dir string, t image.Tree, o upper.Options) error {
	layers := slices.Clone(m.from.layers)
	if m.wroteLittle() {
		if err := image.WriteFiles(ctx, dir, image.Tree{Disk: t.Disk}, false, o); err != nil || len(layers) == 0 {
			return err
		}
		return m.linkLayers(dir, layers, layers)
	}
	own := image.Tree{Disk: t.Disk}
	if len(layers) == image.MaxLayers {
		own, layers = t, nil // one of all of them
	}
	// Holes take no place on the machine's disk, but they do in a layer.
	before, _ := layers.Size()
	o.Bytes = m.limits.DiskBytes/2 - before
	l, err := image.AddLayer(ctx, dir, own, o)
	if err != nil {
		return err
	}
	if l.Bytes > m.limits.DiskBytes*5/8-before {
		return errors.Join(upper.ErrNoLayer, os.Remove(filepath.Join(dir, image.LayerFile(l.Name))))
	}
	if err := image.WriteNothing(dir, t, o); err != nil {
		return err
	}
	return m.linkLayers(dir, layers, append(image.Layers{l}, layers...))
}

// linkLayers links layers of the machine's into an image, and says there on which it is.
func (m *machine) linkLayers(dir string, layers, all image.Layers) error {
	err := image.LinkLayers(m.from.dir, dir, layers)
	if errors.Is(err, os.ErrNotExist) {
		return ended(m.id)
	}
	if err != nil {
		return err
	}
	return image.WriteLayers(dir, all)
}

// wroteLittle reports whether what is on the machine's disk is not worth a layer.
func (m *machine) wroteLittle() bool {
	bytes, files := m.disk.used()
	return bytes >= 0 && bytes < layerBytes && files < layerFiles
}
