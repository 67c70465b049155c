package daemon

import (
	"context"
	"errors"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/platform/bench"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/storage/layer"
)

// benchPlaces gives the bench files as a task on a repository has them: in a layer, with a
// durable workspace over it.
func (s *System) benchPlaces(layers *layer.Store) func(context.Context, func(dir string) error) (sandbox.Workspace, func(context.Context) error, error) {
	p := places{manager: s.sandboxes, layers: layers, spaces: s.workspaces}
	return func(ctx context.Context, fill func(dir string) error) (ws sandbox.Workspace, remove func(context.Context) error, err error) {
		digest, release, err := p.Layer(ctx, "bench "+string(api.NewOwnerID()), func(_ context.Context, dir string) error { return fill(dir) })
		if err != nil {
			return ws, nil, err
		}
		id, err := p.Workspace(ctx, "", digest)
		remove = func(ctx context.Context) error {
			var gone error
			if id != "" {
				gone = s.workspaces.Remove(ctx, id, "it was measured")
			}
			release()
			return errors.Join(gone, layers.Remove(layer.Digest(digest)))
		}
		if err != nil {
			return ws, nil, errors.Join(err, remove(context.WithoutCancel(ctx)))
		}
		return sandbox.Workspace{Layers: []layer.Digest{layer.Digest(digest)}, Upper: id}, remove, nil
	}
}

// benchDoors opens the ways in which the bench speaks to this daemon. Where it listens
// on TCP, the bench has a key of its own for as long as it measures.
func (s *System) benchDoors(ctx context.Context) (doors []bench.Door, end func(), err error) {
	doors = []bench.Door{{Name: "unix socket", Open: func() (*client.Client, error) { return client.Unix(s.dir.socket()), nil }}}
	url := s.url()
	if url == "" {
		const why = "this daemon has no TCP listener; that of hortus serve has one"
		return append(doors, bench.Door{Name: "TCP", Missing: why}, bench.Door{Name: "npm e2b", Missing: why}), func() {}, nil
	}
	k, err := s.guards.keys.Create(ctx, api.CreateKey{Name: "bench", Account: FirstAccount, Role: api.RoleUser,
		Ceilings: api.Ceilings{Sandboxes: api.NoCeiling, MemoryBytes: api.NoCeiling, CPUs: api.NoCeiling, TTLMS: api.NoCeiling}})
	if err != nil {
		return nil, nil, err
	}
	end = func() {
		if _, err := s.guards.keys.Revoke(context.WithoutCancel(ctx), k.Key.ID); err != nil {
			s.log.Error("the bench's key still works", "key", k.Key.ID, "error", err)
		}
	}
	doors = append(doors, bench.Door{Name: "TCP", Open: func() (*client.Client, error) { return client.Remote(url, k.Secret) }})
	npm := bench.Door{Name: "npm e2b", Missing: "daemon.bench-npm names no directory with the package"}
	if s.cfg.NPM != "" {
		usual, _, _, err := s.sandboxes.Choose(ctx, s.cfg.Usual.Isolation)
		if err != nil {
			end()
			return nil, nil, err
		}
		npm = bench.Door{Name: npm.Name, NPM: &bench.NPM{Dir: s.cfg.NPM, URL: url, Key: k.Secret, Isolation: usual.Name()}}
	}
	return append(doors, npm), end, nil
}
