package launch

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail/ids"
	"hortus.dev/internal/backend/jail/initns"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/oci/settings"
)

// Tree is a layer that is leased: one of this machine's own programs until the launcher is closed,
// any other until nothing uses it.
type Tree struct {
	users int // under the launcher's lock
	tree  layer.Tree
	lease *layer.Lease
	image *settings.Settings // of the top layer of a container image, else nil
}

// Resolve finds the layers of a Spec. The caller calls Release when their sandbox has ended.
func (l *Launcher) Resolve(digests []layer.Digest) ([]*Tree, error) {
	if len(digests) == 0 {
		return nil, api.Errorf(api.KindInvalid, "a sandbox needs at least one layer")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]*Tree, 0, len(digests))
	for _, d := range digests {
		t, err := l.treeOf(d)
		if err != nil {
			l.drop(out)
			return nil, err
		}
		t.users++
		out = append(out, t)
	}
	return out, nil
}

// treeOf leases a layer, unless it is leased. The caller holds the lock.
func (l *Launcher) treeOf(d layer.Digest) (*Tree, error) {
	if t := l.trees[d]; t != nil {
		return t, nil
	}
	tree, lease, err := l.cfg.Layers.Lease(d)
	if err != nil {
		return nil, err
	}
	image, err := settings.Read(l.cfg.Layers, d)
	if err != nil {
		lease.Release()
		return nil, err
	}
	t := &Tree{tree: tree, lease: lease, image: image}
	l.trees[d] = t
	return t, nil
}

// Release says that a sandbox of trees has ended.
func (l *Launcher) Release(trees []*Tree) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop(trees)
}

// Roots are the directories of trees, the top one first, as long as they are not released.
func Roots(trees []*Tree) []string {
	var out []string
	for _, t := range slices.Backward(trees) {
		out = append(out, t.tree.Root)
	}
	return out
}

// drop is Release with the lock held.
func (l *Launcher) drop(trees []*Tree) {
	for _, t := range trees {
		d := t.tree.Digest
		if t.users--; t.users > 0 || strings.HasPrefix(string(d), "host-") || l.trees[d] != t {
			continue
		}
		t.lease.Release()
		delete(l.trees, d)
	}
}

// lowers describes the layers of a read-only tree to the stage, which mounts an overlay of
// this sandbox over them. With ranges of ids they are detached mounts, because the stage's
// user cannot enter the directories above them. Ids are not mapped in them: a file of the
// host that is not world-readable stays unreadable.
func (l *Launcher) lowers(dirs []string, add func(int) int) ([]initns.Lower, error) {
	out := make([]initns.Lower, len(dirs))
	for i, dir := range dirs {
		out[i] = initns.Lower{FD: -1, Path: dir}
		if !l.cfg.Ranges {
			continue
		}
		m, err := ids.CloneMount(dir)
		if err != nil {
			return nil, err
		}
		out[i] = initns.Lower{FD: add(m)}
	}
	return out, nil
}

// searchPath is the PATH of commands: that of the uppermost layer which has one.
func searchPath(trees []*Tree) (path string) {
	for _, t := range trees {
		path = cmp.Or(t.tree.Path, path)
	}
	return path
}

// imageOf returns the settings of the container image that trees are; nil for none.
func imageOf(trees []*Tree) *settings.Settings {
	if len(trees) == 0 {
		return nil
	}
	return trees[len(trees)-1].image
}

// Environment returns the environment of commands: the image's variables and, above them, those
// of the sandbox.
func Environment(trees []*Tree, env map[string]string) map[string]string {
	image := imageOf(trees)
	if image == nil || len(image.Env) == 0 {
		return env
	}
	all := maps.Clone(image.Env)
	maps.Copy(all, env)
	return all
}
