package daemon

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox/manager"
	"hortus.dev/internal/storage/image"
	"hortus.dev/internal/storage/layer"
)

// templates names what sandboxes can start from.
type templates struct {
	host *image.Host

	mu    sync.Mutex
	tree  layer.Tree
	at    time.Time
	tools []api.Tool // of tree; nil until somebody asks
	// given says when each layer was last given out.
	given map[layer.Digest]time.Time
}

// looked is how long a look at this machine's toolchains holds: looking costs
// milliseconds, and creating a sandbox should not.
const looked = time.Minute

// Layers implements sandbox.Templates.
func (t *templates) Layers(ctx context.Context, name string) ([]layer.Digest, error) {
	if name != image.HostName {
		return nil, api.Errorf(api.KindNotFound, "there is no template %q", name).WithHint("hortus template ls and hortus snapshot ls list what there is")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if time.Since(t.at) > looked {
		tree, err := t.host.Prepare(ctx)
		if err != nil {
			return nil, err
		}
		if tree.Digest != t.tree.Digest {
			t.tools = nil
		}
		t.tree, t.at = tree, time.Now()
	}
	if t.given == nil {
		t.given = map[layer.Digest]time.Time{}
	}
	t.given[t.tree.Digest] = time.Now()
	return []layer.Digest{t.tree.Digest}, nil
}

// claimed is how long a layer that was given out may take to be leased by the
// sandbox that it is for; a start takes no longer.
const claimed = 2 * time.Minute

// Named calls f with the layers that templates name now and those that were
// given out a moment ago. Until f returns none is given out.
func (t *templates) Named(_ context.Context, f func([]layer.Digest) error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	now, err := t.host.Digest()
	if err != nil {
		return err
	}
	named := []layer.Digest{now}
	if t.tree.Digest != "" && time.Since(t.at) <= looked {
		named = append(named, t.tree.Digest)
	}
	for d, at := range t.given {
		if time.Since(at) > claimed {
			delete(t.given, d)
			continue
		}
		named = append(named, d)
	}
	return f(named)
}

// Tools lists the programs that the template has.
func (t *templates) Tools(ctx context.Context, name string) ([]api.Tool, error) {
	if _, err := t.Layers(ctx, name); err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.tools == nil {
		r := t.host.Report(ctx)
		if r.Error != "" {
			return nil, api.Errorf(api.KindInternal, "what template %s holds: %s", name, r.Error)
		}
		t.tools = r.Tools
	}
	return t.tools, nil
}

// tools finds what programs a sandbox would have: those of its template, or of
// this machine where it has no template's tree for a root.
type tools struct {
	templates *templates
	sandboxes *manager.Manager
	path      string
}

func (l tools) of(ctx context.Context, req api.CreateSandbox) ([]api.Tool, error) {
	_, report, _, err := l.sandboxes.Choose(ctx, req.Isolation)
	if err != nil {
		return nil, err
	}
	// Other templates are sandboxes of this one that were saved.
	listed, err := l.templates.Tools(ctx, image.HostName)
	if err != nil {
		return nil, err
	}
	if _, isolated := report.Has(api.CapPrivateFiles); isolated {
		return listed, nil
	}
	out := make([]api.Tool, 0, len(listed))
	for _, t := range listed {
		out = append(out, onPath(t.Name, l.path))
	}
	return out, nil
}

// onPath looks for a program where a command without a template's tree would.
func onPath(name, path string) api.Tool {
	for _, dir := range filepath.SplitList(path) {
		p := filepath.Join(dir, name)
		if fi, err := os.Stat(p); filepath.IsAbs(p) && err == nil && fi.Mode().IsRegular() && fi.Mode()&0o111 != 0 {
			return api.Tool{Name: name, Path: p, Present: true}
		}
	}
	return api.Tool{Name: name}
}
