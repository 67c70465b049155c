package template

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/storage/image"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/oci"
)

// Chooser chooses the backend of a sandbox.
type Chooser interface {
	// Choose returns the backend for an isolation, "" for the default, that has the
	// capabilities, with its report and the reason for the choice.
	Choose(ctx context.Context, isolation string, needed ...api.Capability) (sandbox.Backend, api.BackendReport, string, error)
}

// Templates resolves the names of templates to layers. Its methods may be called from
// several goroutines.
type Templates struct {
	host   *image.Host
	images *oci.Images // nil where there are none

	mu    sync.Mutex
	tree  layer.Tree
	at    time.Time
	found []api.Tool // the programs of tree; nil until requested
	// resolved is when each layer was last returned by Layers.
	resolved map[layer.Digest]time.Time
}

// New creates Templates of the host template and of container images, which may be nil.
func New(host *image.Host, images *oci.Images) *Templates {
	return &Templates{host: host, images: images, resolved: map[layer.Digest]time.Time{}}
}

// maxAge is how long the host template is used before this machine's toolchains are read
// again. Reading takes milliseconds, which creating a sandbox should not.
const maxAge = time.Minute

// Layers implements sandbox.Templates.
func (t *Templates) Layers(ctx context.Context, name string) ([]layer.Digest, error) {
	if name != image.HostName {
		return t.imageLayers(name)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if time.Since(t.at) > maxAge {
		tree, err := t.host.Prepare(ctx)
		if err != nil {
			return nil, err
		}
		if tree.Digest != t.tree.Digest {
			t.found = nil
		}
		t.tree, t.at = tree, time.Now()
	}
	t.resolved[t.tree.Digest] = time.Now()
	return []layer.Digest{t.tree.Digest}, nil
}

// Shows implements sandbox.Templates.
func (t *Templates) Shows(d layer.Digest) (bool, error) { return t.host.Shows(d) }

// imageLayers returns the layers of a container image.
func (t *Templates) imageLayers(name string) ([]layer.Digest, error) {
	if !t.isImage(name) {
		return nil, api.Errorf(api.KindNotFound, "template %q not found", name).WithHint("list templates with hortus template ls, snapshots with hortus snapshot ls")
	}
	t.mu.Lock() // Named waits until resolved has them
	defer t.mu.Unlock()
	layers, err := t.images.Layers(name)
	if err != nil {
		return nil, err
	}
	for _, d := range layers {
		t.resolved[d] = time.Now()
	}
	return layers, nil
}

// ImageIsolation returns the default isolation of sandboxes of a container image; empty if it has none.
func (t *Templates) ImageIsolation(name string) string {
	if t.images == nil {
		return ""
	}
	img, err := t.images.Find(name)
	if err != nil {
		return ""
	}
	return img.Isolation
}

// isImage reports whether a name is a container image's.
func (t *Templates) isImage(name string) bool {
	if t.images == nil {
		return false
	}
	_, err := t.images.Find(name)
	return err == nil
}

// ImageUser returns the user of a container image; empty for any other template.
func (t *Templates) ImageUser(name string) string {
	if t.images == nil {
		return ""
	}
	img, err := t.images.Find(name)
	if err != nil {
		return ""
	}
	return img.User
}

// leaseWithin is the maximum time between Layers and the lease of the sandbox that the
// layers are for. A start takes less.
const leaseWithin = 2 * time.Minute

// Named calls f with the layers that templates name now and those that Layers returned in
// the last two minutes. Layers waits until f returns.
func (t *Templates) Named(_ context.Context, f func([]layer.Digest) error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	now, err := t.host.Digest()
	if err != nil {
		return err
	}
	named := []layer.Digest{now}
	if t.images != nil {
		named = append(named, t.images.Named()...)
	}
	if t.tree.Digest != "" && time.Since(t.at) <= maxAge {
		named = append(named, t.tree.Digest)
	}
	for d, at := range t.resolved {
		if time.Since(at) > leaseWithin {
			delete(t.resolved, d)
			continue
		}
		named = append(named, d)
	}
	return f(named)
}

// tools lists the programs of layers, which may be an image's.
func (t *Templates) tools(ctx context.Context, layers []layer.Digest) ([]api.Tool, error) {
	if len(layers) > 0 && t.images != nil && !strings.HasPrefix(string(layers[0]), "host-") {
		listed, err := t.hostTools(ctx)
		if err != nil {
			return nil, err
		}
		return t.images.Programs(layers, listed)
	}
	return t.hostTools(ctx)
}

// hostTools lists the programs of the host template.
func (t *Templates) hostTools(ctx context.Context) ([]api.Tool, error) {
	if _, err := t.Layers(ctx, image.HostName); err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.found == nil {
		r := t.host.Report(ctx)
		if r.Error != "" {
			return nil, api.Errorf(api.KindInternal, "read the programs of template %s: %s", image.HostName, r.Error)
		}
		t.found = r.Tools
	}
	return t.found, nil
}

// Tools lists the programs that sandboxes have.
type Tools struct {
	Templates *Templates
	// Report returns what the backend of a request reports.
	Report func(ctx context.Context, req api.CreateSandbox) (api.BackendReport, error)
	// Saved returns the layers of a template that was saved from a sandbox, or of a snapshot,
	// and its ID; KindNotFound if there is none. Without it there are none.
	Saved func(ctx context.Context, account, name string) ([]layer.Digest, api.SnapshotID, error)
	// Path is the search path of sandboxes that have the files of this machine.
	Path string
}

// Of lists the programs of the sandbox that a request would create: those of its template,
// or those of this machine if the sandbox has no files of its own.
func (l Tools) Of(ctx context.Context, req api.CreateSandbox) ([]api.Tool, error) {
	report, err := l.Report(ctx, req)
	if err != nil {
		return nil, err
	}
	layers, saved, err := l.layers(ctx, req)
	if err != nil {
		return nil, err
	}
	listed, err := l.Templates.tools(ctx, layers)
	if err != nil {
		return nil, err
	}
	if saved != "" && len(layers) > 0 && !strings.HasPrefix(string(layers[0]), "host-") {
		// What the image lacks may have been installed before the sandbox was saved.
		for i := range listed {
			listed[i].Present = true
		}
	}
	if _, isolated := report.Has(api.CapPrivateFiles); isolated {
		return listed, nil
	}
	out := make([]api.Tool, 0, len(listed))
	for _, t := range listed {
		out = append(out, onPath(t.Name, l.Path))
	}
	return out, nil
}

// layers returns the layers of a request's template, and the ID of a saved one. It returns none
// for a name that it does not know.
func (l Tools) layers(ctx context.Context, req api.CreateSandbox) ([]layer.Digest, api.SnapshotID, error) {
	if req.Template == "" || req.Template == image.HostName {
		return nil, "", nil
	}
	if l.Saved != nil {
		layers, id, err := l.Saved(ctx, req.Account, req.Template)
		if api.KindOf(err) != api.KindNotFound {
			return layers, id, err
		}
	}
	if l.Templates.isImage(req.Template) {
		layers, err := l.Templates.Layers(ctx, req.Template)
		return layers, "", err
	}
	return nil, "", nil
}

// onPath finds a program on a search path.
func onPath(name, path string) api.Tool {
	for _, dir := range filepath.SplitList(path) {
		p := filepath.Join(dir, name)
		if fi, err := os.Stat(p); filepath.IsAbs(p) && err == nil && fi.Mode().IsRegular() && fi.Mode()&0o111 != 0 {
			return api.Tool{Name: name, Path: p, Present: true}
		}
	}
	return api.Tool{Name: name}
}
