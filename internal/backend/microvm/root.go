package microvm

import (
	"cmp"
	"maps"

	"hortus.dev/api"
	"hortus.dev/internal/storage/layer"
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
