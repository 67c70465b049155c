package launch

import (
	"cmp"
	"maps"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail/ids"
	"hortus.dev/internal/backend/jail/initns"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/oci/settings"
)

// Tree is a layer that is leased until the launcher is closed.
type Tree struct {
	tree  layer.Tree
	lease *layer.Lease
	image *settings.Settings // of the top layer of a container image, else nil
}

// Resolve finds the layers of a Spec.
func (l *Launcher) Resolve(digests []layer.Digest) ([]*Tree, error) {
	if len(digests) == 0 {
		return nil, api.Errorf(api.KindInvalid, "a sandbox needs at least one layer")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]*Tree, len(digests))
	for i, d := range digests {
		t := l.trees[d]
		if t == nil {
			tree, lease, err := l.cfg.Layers.Lease(d)
			if err != nil {
				return nil, err
			}
			image, err := settings.Read(l.cfg.Layers, d)
			if err != nil {
				lease.Release()
				return nil, err
			}
			t = &Tree{tree: tree, lease: lease, image: image}
			l.trees[d] = t
		}
		out[i] = t
	}
	return out, nil
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
