package leased

import (
	"cmp"
	"maps"

	"hortus.dev/api"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/oci/settings"
)

// Layers are what a sandbox starts from. The zero Layers are none.
type Layers struct {
	Trees    []layer.Tree
	Settings *settings.Settings // of a container image; nil for others

	leases []*layer.Lease
}

// Lease leases layers until Release.
func Lease(store *layer.Store, digests []layer.Digest) (_ *Layers, err error) {
	if len(digests) == 0 {
		return nil, api.Errorf(api.KindInvalid, "a sandbox needs at least one layer")
	}
	l := &Layers{}
	defer func() {
		if err != nil {
			l.Release()
		}
	}()
	for _, d := range digests {
		tree, lease, err := store.Lease(d)
		if err != nil {
			return nil, err
		}
		l.Trees, l.leases = append(l.Trees, tree), append(l.leases, lease)
	}
	l.Settings, err = settings.Read(store, digests[len(digests)-1])
	return l, err
}

// Release releases the leases. It may be called again.
func (l *Layers) Release() {
	for _, lease := range l.leases {
		lease.Release()
	}
	l.leases = nil
}

// Path is the PATH of commands: that of the uppermost layer which has one.
func (l *Layers) Path() (path string) {
	for _, t := range l.Trees {
		path = cmp.Or(t.Path, path)
	}
	return path
}

// Dir is the directory in which commands start; empty for that of their user.
func (l *Layers) Dir() string {
	if l.Settings == nil {
		return ""
	}
	return l.Settings.Dir
}

// Env is the environment of commands: the image's variables and, above them, those of the sandbox.
func (l *Layers) Env(env map[string]string) map[string]string {
	if l.Settings == nil || len(l.Settings.Env) == 0 {
		return env
	}
	all := maps.Clone(l.Settings.Env)
	maps.Copy(all, env)
	return all
}
