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
	"hortus.dev/internal/backend/jail/rundir"
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
func (f *fromLayers) adopt(b *Backend, r *rundir.Record) (err error) {
	f.dir = b.basesDir(r.ID)
	if f.layers, err = image.ReadLayers(f.dir); err != nil {
		return err
	}
	if len(f.layers) != r.ForkLayers { // what it has from its parent would be missing in its snapshots
		return api.Errorf(api.KindConflict, "sandbox %s has %d layers of its parent, and was started with %d", r.ID, len(f.layers), r.ForkLayers)
	}
	// What the other process remembered of its forks is not known here.
	if err := image.RemoveLayers(f.dir, f.layers); err != nil {
		return api.Errorf(api.KindInternal, "sandbox %s: layers of its forks: %w", r.ID, err)
	}
	return nil
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
	if !sameDevice(dir, m.b.dir) { // links are impossible
		return false
	}
	if why := m.b.forks.Can(ctx, dir); why != nil {
		m.b.log.Debug("the files of a fork are copied", "sandbox", m.id, "reason", why)
		return false
	}
	return true
}

func sameDevice(a, b string) bool {
	var x, y unix.Stat_t
	return unix.Stat(a, &x) == nil && unix.Stat(b, &y) == nil && x.Dev == y.Dev
}

// ownLayers are the layers that forks of a machine made of what it wrote, the top one first, and what they
// have together. Its next fork writes only what has changed since. Save has them.
type ownLayers struct {
	layers image.Layers
	seen   *upper.Seen
}

// writeFork writes the image of a fork: what the machine has from its ancestors stays in layers, and what it wrote becomes
// one, or one of several, unless it is little.
func (m *machine) writeFork(ctx context.Context, dir string, t image.Tree, o upper.Options) error {
	if m.wroteLittle() {
		if err := image.WriteFiles(ctx, dir, image.Tree{Disk: t.Disk}, false, o); err != nil || len(m.from.layers) == 0 {
			return err
		}
		return m.finishFork(dir, image.Layer{}, m.from.layers)
	}
	if err := image.WriteNothing(dir, t, o); err != nil {
		return err
	}
	if len(m.from.layers) == image.MaxLayers { // one of all of them
		l, _, err := m.addLayer(ctx, dir, t, o, nil, nil)
		if err != nil {
			return errors.Join(err, os.Remove(filepath.Join(dir, image.FilesName)))
		}
		return m.finishFork(dir, l, nil)
	}
	l, below, seen, err := m.addChange(ctx, dir, image.Tree{Disk: t.Disk}, o)
	if err != nil {
		return errors.Join(err, os.Remove(filepath.Join(dir, image.FilesName)))
	}
	if err := m.finishFork(dir, l, below); err != nil {
		return err
	}
	m.remember(dir, l, below, seen)
	return nil
}

// addChange writes what has changed since the last fork as a layer above below; all that the machine wrote if there
// was no fork, or if there are too many layers.
func (m *machine) addChange(ctx context.Context, dir string, t image.Tree, o upper.Options) (l image.Layer, below image.Layers, seen *upper.Seen, err error) {
	if below = slices.Concat(m.own.layers, m.from.layers); m.own.seen != nil && len(below) < image.MaxLayers {
		l, seen, err = m.addLayer(ctx, dir, t, o, m.own.seen, below)
		if !errors.Is(err, upper.ErrNoLayer) {
			return l, below, seen, err
		}
	}
	below = m.from.layers
	l, seen, err = m.addLayer(ctx, dir, t, o, nil, below)
	return l, below, seen, err
}

// addLayer writes a layer above others, if there is space for it.
func (m *machine) addLayer(ctx context.Context, dir string, t image.Tree, o upper.Options, was *upper.Seen, below image.Layers) (image.Layer, *upper.Seen, error) {
	// Holes take no place on the machine's disk, but they do in a layer.
	before, files := below.Size()
	o.Bytes, o.Compare = m.limits.DiskBytes/2-before, m.limits.DiskBytes
	l, seen, err := image.AddLayer(ctx, dir, t, o, was)
	if err == nil && l.Name != "" && (before+l.Bytes > m.limits.DiskBytes*5/8 || files+l.Files > workdir.Inodes(m.limits.DiskBytes)/2) {
		err = errors.Join(upper.ErrNoLayer, os.Remove(filepath.Join(dir, image.LayerFile(l.Name))))
	}
	return l, seen, err
}

// finishFork links layers of the machine's into the image of a fork, and says there on which it is: on l, if it has
// a name, above those.
func (m *machine) finishFork(dir string, l image.Layer, below image.Layers) error {
	err := image.LinkLayers(m.b.basesDir(m.id), dir, below)
	if errors.Is(err, os.ErrNotExist) {
		return ended(m.id)
	}
	if err != nil {
		return err
	}
	if l.Name != "" {
		below = append(image.Layers{l}, below...)
	}
	return image.WriteLayers(dir, below)
}

// remember keeps a new layer for the next fork of the machine.
func (m *machine) remember(dir string, l image.Layer, below image.Layers, seen *upper.Seen) {
	own := slices.Clone(below[:len(below)-len(m.from.layers)])
	into := m.b.basesDir(m.id)
	var err error
	if l.Name != "" {
		own = append(image.Layers{l}, own...)
		if err = os.Mkdir(into, 0o700); err == nil || errors.Is(err, os.ErrExist) {
			err = image.LinkLayers(dir, into, image.Layers{l})
		}
	}
	m.own = ownLayers{own, seen}
	if seen == nil || err != nil {
		m.own = ownLayers{}
	}
	err = errors.Join(err, image.RemoveLayers(into, slices.Concat(m.own.layers, m.from.layers)))
	// Nobody removes the directory again if that was done before.
	if m.stillRunning() != nil {
		err = errors.Join(err, os.RemoveAll(into))
	}
	if err != nil {
		m.b.log.Warn("the next fork copies everything", "sandbox", m.id, "error", err)
	}
}

// wroteLittle reports whether what is on the machine's disk is not worth a layer.
func (m *machine) wroteLittle() bool {
	bytes, files := m.disk.used()
	return bytes >= 0 && bytes < layerBytes && files < layerFiles
}
