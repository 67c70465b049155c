package daemon

import (
	"context"
	"errors"

	"hortus.dev/api"
	"hortus.dev/internal/layer"
	"hortus.dev/internal/sandbox"
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
