package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"

	"hortus.dev/api"
	"hortus.dev/internal/repository/git/cache"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/workspace"
	"hortus.dev/internal/task/repo"
)

// places gives tasks on repositories their computers, over the manager and the
// stores of layers and workspaces. It implements repo.Computers.
type places struct {
	manager *sandbox.Manager
	layers  *layer.Store
	spaces  *workspace.Store
}

// Layer implements repo.Computers.
func (p places) Layer(ctx context.Context, key string, build func(ctx context.Context, dir string) error) (repo.Layer, func(), error) {
	sum := sha256.Sum256([]byte("repository\x00" + key))
	digest := layer.Digest("sha256-" + hex.EncodeToString(sum[:]))
	_, err := p.layers.Put(ctx, digest, func(ctx context.Context, dir string) (layer.Tree, error) {
		root := filepath.Join(dir, "root")
		if err := os.Mkdir(root, 0o755); err != nil {
			return layer.Tree{}, api.Errorf(api.KindInternal, "make a layer: %w", err)
		}
		if err := build(ctx, root); err != nil {
			return layer.Tree{}, err
		}
		return layer.Tree{Root: root}, workspace.Own(root)
	})
	return p.leased(digest, err)
}

// leased holds a layer that was just made, so that nobody collects it.
func (p places) leased(digest layer.Digest, err error) (repo.Layer, func(), error) {
	if err != nil {
		return "", nil, err
	}
	_, lease, err := p.layers.Lease(digest)
	if err != nil {
		return "", nil, err
	}
	return repo.Layer(digest), lease.Release, nil
}

// Over implements repo.Computers.
func (p places) Over(ctx context.Context, base repo.Layer, changes []cache.Change) (repo.Layer, func(), error) {
	list := make([]workspace.Change, len(changes))
	for i, c := range changes {
		list[i] = workspace.Change{Path: c.Path, Delete: c.Delete, Size: c.Size, Open: c.Open}
		if !c.Delete {
			list[i].Mode = toWorkspace[c.Mode]
		}
	}
	digest, err := workspace.Delta(ctx, p.layers, []layer.Digest{layer.Digest(base)}, list)
	return p.leased(digest, err)
}

// What git and workspaces call the kinds of files.
var (
	toWorkspace = map[cache.Mode]workspace.Mode{cache.Regular: workspace.Regular, cache.Executable: workspace.Executable, cache.Symlink: workspace.Symlink}
	toGit       = map[workspace.Mode]cache.Mode{workspace.Regular: cache.Regular, workspace.Executable: cache.Executable, workspace.Symlink: cache.Symlink}
)

// Workspace implements repo.Computers.
func (p places) Workspace(ctx context.Context, task api.TaskID, base repo.Layer) (api.WorkspaceID, error) {
	return p.spaces.Create(ctx, task, []layer.Digest{layer.Digest(base)})
}

// Adopt implements repo.Computers.
func (p places) Adopt(ctx context.Context, id api.WorkspaceID, from, to api.TaskID) error {
	return p.spaces.Adopt(ctx, id, from, to)
}

// Changes implements repo.Computers.
func (p places) Changes(ctx context.Context, id api.WorkspaceID) ([]cache.Change, []api.RefusedChange, func(), error) {
	c, err := p.spaces.Changes(ctx, id, workspace.Limits{})
	if err != nil {
		return nil, nil, nil, err
	}
	list := make([]cache.Change, len(c.List))
	for i, w := range c.List {
		list[i] = cache.Change{Path: w.Path, Delete: w.Delete, Size: w.Size, Open: w.Open}
		if !w.Delete {
			list[i].Mode = toGit[w.Mode]
		}
	}
	return list, c.Refused, c.Close, nil
}

// Open implements repo.Computers.
func (p places) Open(ctx context.Context, req api.CreateSandbox, id api.WorkspaceID) (repo.Computer, error) {
	w, err := p.spaces.Get(id)
	if err != nil {
		return nil, err
	}
	ws := sandbox.Workspace{Upper: id}
	for _, d := range w.Layers {
		ws.Layers = append(ws.Layers, layer.Digest(d))
	}
	return p.in(ctx, req, ws)
}

// Clean implements repo.Computers.
func (p places) Clean(ctx context.Context, req api.CreateSandbox, layers ...repo.Layer) (repo.Computer, error) {
	var ws sandbox.Workspace
	for _, l := range layers {
		ws.Layers = append(ws.Layers, layer.Digest(l))
	}
	return p.in(ctx, req, ws)
}

func (p places) in(ctx context.Context, req api.CreateSandbox, ws sandbox.Workspace) (repo.Computer, error) {
	s, err := p.manager.CreateIn(ctx, req, ws)
	if err != nil {
		return nil, err
	}
	return boxes{manager: p.manager}.box(ctx, s)
}
