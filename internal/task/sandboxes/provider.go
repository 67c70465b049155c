package sandboxes

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent"
	"hortus.dev/internal/agent/tool"
	"hortus.dev/internal/platform/perkey"
	"hortus.dev/internal/repository/filerule"
	"hortus.dev/internal/repository/git/cache"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/durable"
	"hortus.dev/internal/sandbox/runner"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/workspace"
	"hortus.dev/internal/task/repo"
	"hortus.dev/internal/task/setup"
)

// Creator creates sandboxes on behalf of the context's principal, within the ceilings of
// its key.
type Creator interface {
	Create(ctx context.Context, req api.CreateSandbox) (api.Sandbox, error)
	CreateIn(ctx context.Context, req api.CreateSandbox, ws sandbox.Workspace) (api.Sandbox, error)
}

// Forker forks sandboxes on behalf of the context's principal.
type Forker interface {
	// ForkFor forks a sandbox with its workspace for a task, which the children and their workspaces belong to.
	ForkFor(ctx context.Context, id api.SandboxID, req api.ForkSandbox, task api.TaskID) (api.ForkResult, error)
}

// Guests is the way into sandboxes.
type Guests interface {
	runner.Guests
	// Dial connects with a port of a sandbox's loopback interface.
	Dial(ctx context.Context, id api.SandboxID, port int) (net.Conn, error)
}

// Lifecycle finds and ends sandboxes.
type Lifecycle interface {
	runner.Ender
	Get(ctx context.Context, id api.SandboxID) (api.Sandbox, error)
}

// Policies changes what a sandbox may connect to.
type Policies interface {
	SetEgress(ctx context.Context, id api.SandboxID, p api.EgressPolicy) (api.Sandbox, error)
}

// Planner says what a request gets.
type Planner interface {
	// Outline returns the row of a sandbox that would be created.
	Outline(ctx context.Context, req api.CreateSandbox) (api.Sandbox, error)
}

// Egress resolves the presets of policies.
type Egress interface {
	Resolve(ctx context.Context, p api.EgressPolicy) (_ api.EgressPolicy, env map[string]string, err error)
}

// Config is what a Provider is made of. All fields but Forker, ForkTime, Egress and Logger are
// required.
type Config struct {
	// Creator creates the sandboxes. The next five are parts of what they run in.
	Creator   Creator
	Guests    Guests
	Lifecycle Lifecycle
	Stiller   Stiller
	Policies  Policies
	Planner   Planner
	// Forker forks sandboxes in which services run; nil to start the services in each.
	Forker Forker
	// ForkTime bounds such a fork, with its wait for capacity; 0 is [DefaultForkTime].
	ForkTime time.Duration
	// Egress resolves a policy; see sandbox.EgressServer. Nil if the daemon serves no
	// outgoing connections.
	Egress     Egress
	Layers     *layer.Store
	Workspaces *workspace.Store
	// Durable are the workspaces that people name, and Task reads a task that may use one.
	// Without them no task can name a workspace.
	Durable *durable.Service
	Task    func(ctx context.Context, id api.TaskID) (api.Task, error)
	// Sandboxes lists the sandboxes that worked in a workspace, the newest first, also those that have ended.
	Sandboxes func(ctx context.Context, id api.WorkspaceID) ([]api.Sandbox, error)
	Now       func() time.Time // nil means time.Now
	Logger    *slog.Logger
}

// Provider creates the sandboxes of tasks. It implements agent.Sandboxes for programs and
// repo.Sandboxes for repositories. It may be used from several goroutines.
type Provider struct {
	cfg Config

	// copies are the locks of sandboxes that are copied.
	copies perkey.Locks

	mu      sync.Mutex
	sources map[api.TaskID]*forkSource
}

var (
	_ agent.Sandboxes = (*Provider)(nil)
	_ repo.Sandboxes  = (*Provider)(nil)
)

// New makes a Provider.
func New(cfg Config) *Provider {
	cfg.ForkTime = cmp.Or(cfg.ForkTime, DefaultForkTime)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	return &Provider{cfg: cfg, sources: map[api.TaskID]*forkSource{}}
}

// Sandbox is the sandbox of a task. It implements agent.Sandbox and repo.Sandbox.
type Sandbox struct {
	*runner.Runner
	provider *Provider
}

// List implements agent.Sandbox.
func (c Sandbox) List(ctx context.Context) ([]agent.FileInfo, error) {
	files, err := c.Runner.List(ctx)
	list := make([]agent.FileInfo, len(files))
	for i, f := range files {
		list[i] = agent.FileInfo(f)
	}
	return list, err
}

// SetEgress implements agent.Sandbox.
func (c Sandbox) SetEgress(ctx context.Context, p api.EgressPolicy) (env map[string]string, err error) {
	if len(p.Presets) > 0 && c.provider.cfg.Egress != nil {
		if _, env, err = c.provider.cfg.Egress.Resolve(ctx, p); err != nil {
			return nil, err
		}
	}
	_, err = c.provider.cfg.Policies.SetEgress(ctx, c.Info().ID, p)
	return env, err
}

// Start implements tool.Sandbox.
func (c Sandbox) Start(ctx context.Context, req api.ExecRequest) (tool.Job, error) {
	j, err := c.Runner.Start(ctx, req)
	if err != nil {
		return nil, err
	}
	return j, nil
}

// Talk implements repo.Sandbox.
func (c Sandbox) Talk(ctx context.Context, req api.ExecRequest) (repo.Conn, error) {
	p, err := c.Runner.Pipe(ctx, req)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// Dial implements repo.Sandbox.
func (c Sandbox) Dial(ctx context.Context, port int) (net.Conn, error) {
	return c.provider.cfg.Guests.Dial(ctx, c.Info().ID, port)
}

// open opens a sandbox that was just created.
func (p *Provider) open(ctx context.Context, row api.Sandbox, err error) (Sandbox, error) {
	if err != nil {
		return Sandbox{}, err
	}
	b, err := runner.Open(ctx, p.cfg.Guests, p.cfg.Lifecycle, row)
	return Sandbox{b, p}, err
}

// Create implements agent.Sandboxes.
func (p *Provider) Create(ctx context.Context, req api.CreateSandbox) (agent.Sandbox, error) {
	row, err := p.cfg.Creator.Create(ctx, req)
	c, err := p.open(ctx, row, err)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Layer implements repo.Sandboxes.
func (p *Provider) Layer(ctx context.Context, key string, build func(ctx context.Context, dir string) error) (repo.Layer, func(), error) {
	digest := digestOf(key)
	_, err := p.cfg.Layers.Put(ctx, digest, func(ctx context.Context, dir string) (layer.Tree, error) {
		root := filepath.Join(dir, "root")
		if err := os.Mkdir(root, 0o755); err != nil {
			return layer.Tree{}, api.Errorf(api.KindInternal, "create a layer: %w", err)
		}
		if err := build(ctx, root); err != nil {
			return layer.Tree{}, err
		}
		return layer.Tree{Root: root}, workspace.Own(root)
	})
	return p.lease(digest, full(p.cfg.Layers.Dir(), err))
}

// Find implements setup.Sandboxes.
func (p *Provider) Find(_ context.Context, key string) (repo.Layer, func(), error) {
	return p.lease(digestOf(key), nil)
}

// digestOf names the layer of a key.
func digestOf(key string) layer.Digest {
	sum := sha256.Sum256([]byte("repository\x00" + key))
	return layer.Digest("sha256-" + hex.EncodeToString(sum[:]))
}

// ReadLayer implements setup.Sandboxes.
func (p *Provider) ReadLayer(_ context.Context, l repo.Layer, path string, max int64) ([]byte, error) {
	tree, lease, err := p.cfg.Layers.Lease(layer.Digest(l))
	if err != nil {
		return nil, err
	}
	defer lease.Release()
	root, err := os.OpenRoot(tree.Root)
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "read %s of layer %s: %w", path, l, err)
	}
	defer root.Close()
	f, err := root.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, api.Errorf(api.KindNotFound, "layer %s has no file %s", l, path)
	}
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "read %s of layer %s: %w", path, l, err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, max+1))
	if err != nil || int64(len(b)) > max {
		return nil, api.Errorf(api.KindInternal, "read %s of layer %s (%d bytes): %w", path, l, len(b), err)
	}
	return b, nil
}

// lease holds a layer that was just created, so that it is not garbage collected.
func (p *Provider) lease(digest layer.Digest, err error) (repo.Layer, func(), error) {
	if err != nil {
		return "", nil, err
	}
	_, lease, err := p.cfg.Layers.Lease(digest)
	if err != nil {
		return "", nil, err
	}
	return repo.Layer(digest), lease.Release, nil
}

// digests are layers as the store names them.
func digests(layers []repo.Layer) []layer.Digest {
	out := make([]layer.Digest, len(layers))
	for i, l := range layers {
		out[i] = layer.Digest(l)
	}
	return out
}

// Over implements repo.Sandboxes.
func (p *Provider) Over(ctx context.Context, base []repo.Layer, changes []cache.Change) (repo.Layer, func(), error) {
	list := make([]workspace.Change, len(changes))
	for i, c := range changes {
		list[i] = workspace.Change{Path: c.Path, Delete: c.Delete, Size: c.Size, Open: c.Open}
		if !c.Delete {
			list[i].Mode = toWorkspace[c.Mode]
		}
	}
	digest, err := workspace.Delta(ctx, p.cfg.Layers, digests(base), list)
	return p.lease(digest, full(p.cfg.Layers.Dir(), err))
}

// The kinds of files in git and in workspaces.
var (
	toWorkspace = map[cache.Mode]workspace.Mode{cache.Regular: workspace.Regular, cache.Executable: workspace.Executable, cache.Symlink: workspace.Symlink}
	toGit       = map[workspace.Mode]cache.Mode{workspace.Regular: cache.Regular, workspace.Executable: cache.Executable, workspace.Symlink: cache.Symlink}
)

// Workspace implements repo.Sandboxes. The workspace belongs to the account of the context's
// principal, like the sandboxes that use it.
func (p *Provider) Workspace(ctx context.Context, task api.TaskID, layers ...repo.Layer) (api.WorkspaceID, error) {
	if id := p.source(task).workspace(ctx, layers); id != "" {
		return id, nil
	}
	return p.plain(ctx, task, layers)
}

// plain makes a workspace with nothing but its layers.
func (p *Provider) plain(ctx context.Context, task api.TaskID, layers []repo.Layer) (api.WorkspaceID, error) {
	w, err := p.cfg.Workspaces.Make(ctx, workspace.New{Task: task, Account: api.PrincipalOf(ctx).Account, Layers: digests(layers)})
	return w.ID, err
}

// Adopt implements repo.Sandboxes.
func (p *Provider) Adopt(ctx context.Context, id api.WorkspaceID, from, to api.TaskID) error {
	return p.cfg.Workspaces.Adopt(ctx, id, from, to)
}

// Changes implements repo.Sandboxes.
func (p *Provider) Changes(ctx context.Context, id api.WorkspaceID, dirs ...string) ([]cache.Change, []api.RefusedChange, func(), error) {
	if err := p.unopened(ctx, id); err != nil {
		return nil, nil, nil, err
	}
	c, err := p.cfg.Workspaces.Changes(ctx, id, workspace.Limits{Repositories: dirs})
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

// Open implements repo.Sandboxes.
func (p *Provider) Open(ctx context.Context, req api.CreateSandbox, id api.WorkspaceID, access []filerule.Access) (repo.Sandbox, error) {
	if c, err := p.source(req.Task).open(ctx, req, id, access); c != nil || err != nil {
		return c, err
	}
	req, err := p.carryOver(ctx, req, id)
	if err != nil {
		return nil, err
	}
	return orNil(p.over(ctx, req, id, access))
}

// orNil returns a sandbox as an interface, which is nil after an error.
func orNil[C repo.Sandbox](c C, err error) (repo.Sandbox, error) {
	if err != nil {
		return nil, err
	}
	return c, nil
}

// over starts a sandbox over a workspace.
func (p *Provider) over(ctx context.Context, req api.CreateSandbox, id api.WorkspaceID, access []filerule.Access) (Sandbox, error) {
	w, err := p.cfg.Workspaces.Get(id)
	if err != nil {
		return Sandbox{}, err
	}
	ws := sandbox.Workspace{Upper: id, View: true}
	for _, d := range w.Layers {
		ws.Layers = append(ws.Layers, layer.Digest(d))
	}
	for _, a := range access {
		ws.Access = append(ws.Access, sandbox.PathAccess(a))
	}
	return p.createIn(ctx, req, ws)
}

// Clean implements repo.Sandboxes.
func (p *Provider) Clean(ctx context.Context, req api.CreateSandbox, of api.WorkspaceID, layers ...repo.Layer) (repo.Sandbox, error) {
	req, err := p.carryOver(ctx, req, of)
	if err != nil {
		return nil, err
	}
	var ws sandbox.Workspace
	for _, l := range layers {
		ws.Layers = append(ws.Layers, layer.Digest(l))
	}
	return orNil(p.createIn(ctx, req, ws))
}

// createIn creates a sandbox with files at /workspace.
func (p *Provider) createIn(ctx context.Context, req api.CreateSandbox, ws sandbox.Workspace) (Sandbox, error) {
	row, err := p.cfg.Creator.CreateIn(ctx, req, ws)
	return p.open(ctx, row, err)
}

// Attach implements repo.Sandboxes, for the account of the context's principal.
func (p *Provider) Attach(ctx context.Context, task api.TaskID, nameOrID string, layers ...repo.Layer) (api.WorkspaceID, error) {
	if p.cfg.Durable == nil {
		return "", api.Errorf(api.KindUnsupported, "tasks cannot name workspaces here")
	}
	who := api.PrincipalOf(ctx)
	digests := make([]layer.Digest, len(layers))
	for i, l := range layers {
		digests[i] = layer.Digest(l)
	}
	id := api.WorkspaceID(nameOrID)
	if !id.Valid() {
		var err error
		scope := who.Account
		if who.Role == api.RoleAdmin {
			scope = ""
		}
		id, err = p.cfg.Durable.Find(ctx, who.Account, scope, nameOrID)
		if api.KindOf(err) == api.KindNotFound {
			w, err := p.cfg.Durable.CreateOver(ctx, who.Account, nameOrID, task, digests)
			return w.ID, err
		}
		if err != nil {
			return "", err
		}
	}
	w, err := p.cfg.Durable.Row(ctx, id)
	if err == nil && !who.May(w.Account) {
		err = api.Errorf(api.KindNotFound, "unknown workspace %.64q", nameOrID)
	}
	if err == nil {
		err = p.fits(ctx, w, task, digests)
	}
	if err == nil && w.Task != task {
		err = p.cfg.Durable.InUse(ctx, w, p.cfg.Workspaces.Adopt(ctx, id, w.Task, task))
	}
	return id, err
}

// fits refuses a workspace that lies on other layers, or in which another task works: between two
// of its sandboxes nobody has the lease.
func (p *Provider) fits(ctx context.Context, w api.Workspace, task api.TaskID, digests []layer.Digest) error {
	name := durable.Label(w)
	if w.Task != "" && w.Task != task {
		t, err := p.cfg.Task(ctx, w.Task)
		if err != nil && api.KindOf(err) != api.KindNotFound {
			return err
		}
		if err == nil && t.State != api.TaskDone {
			return api.Errorf(api.KindConflict, "task %s works in workspace %s; a workspace has one writer at a time", t.ID, name).
				WithHint("wait for the task (hortus task watch %s) or cancel it: hortus task cancel %s", t.ID, t.ID)
		}
	}
	was := make([]layer.Digest, len(w.Layers))
	for i, d := range w.Layers {
		was[i] = layer.Digest(d)
	}
	if !slices.Equal(was, digests) {
		return api.Errorf(api.KindConflict, "workspace %s was not created over this commit with these dependencies", name).
			WithHint("use a name that no workspace has, and the task creates it; or name the commit: --repo PATH@COMMIT")
	}
	return nil
}

// Disk returns the directory whose disk has the files of workspaces.
func (p *Provider) Disk() string { return p.cfg.Workspaces.Dir() }

// full says which disk is full, if that is why something failed.
func full(dir string, err error) error {
	if !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) {
		return err
	}
	return api.Errorf(api.KindExhausted, "no space left on the disk of %s: %w", dir, err).WithHint("Free disk space: hortus gc. hortus df shows the usage.")
}

// Fork implements repo.Sandboxes. The copy belongs to the account of the workspace.
func (p *Provider) Fork(ctx context.Context, task api.TaskID, from api.WorkspaceID) (api.WorkspaceID, error) {
	if err := p.unopened(ctx, from); err != nil {
		return "", err
	}
	was, err := p.cfg.Workspaces.Get(from)
	if err != nil {
		return "", err
	}
	w, err := p.cfg.Workspaces.Fork(ctx, from, workspace.New{Task: task, Account: was.Account})
	return w.ID, err
}

var _ setup.Sandboxes = (*Provider)(nil)

// sealed bounds what a setup may write: dependencies are more than what an agent writes.
func sealed() workspace.Limits {
	return workspace.Limits{Files: 500_000, FileBytes: 1 << 30, Bytes: 10 << 30, Depth: 128, Time: 10 * time.Minute}
}

// Written implements setup.Sandboxes.
func (p *Provider) Written(ctx context.Context, id api.WorkspaceID) (setup.Result, error) {
	c, err := p.cfg.Workspaces.Changes(ctx, id, sealed())
	if err != nil {
		return setup.Result{}, err
	}
	if !c.Complete {
		c.Close()
		last := c.Refused[len(c.Refused)-1]
		return setup.Result{}, api.Errorf(api.KindExhausted, "the setup wrote too much: %s: %s", last.Path, last.Why)
	}
	out := setup.Result{Files: make([]setup.File, len(c.List)), Refused: c.Refused, Close: c.Close}
	for i, w := range c.List {
		out.Files[i] = setup.File{
			Path: w.Path, Delete: w.Delete, Link: w.Mode == workspace.Symlink, Executable: w.Mode == workspace.Executable, Size: w.Size, ModTime: w.ModTime, Open: w.Open,
		}
	}
	return out, nil
}

// Verified implements setup.Sandboxes.
func (p *Provider) Verified(ctx context.Context, l repo.Layer) error {
	return p.cfg.Layers.Verified(ctx, layer.Digest(l))
}

// Discard implements setup.Sandboxes.
func (p *Provider) Discard(ctx context.Context, id api.WorkspaceID) error {
	if err := p.unopened(ctx, id); err != nil {
		return err
	}
	return p.cfg.Workspaces.Remove(ctx, id, "it is no longer needed")
}
