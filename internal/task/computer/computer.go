package computer

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent"
	"hortus.dev/internal/agent/tool"
	"hortus.dev/internal/repository/filerule"
	"hortus.dev/internal/repository/git/cache"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/box"
	"hortus.dev/internal/sandbox/durable"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/workspace"
	"hortus.dev/internal/task/repo"
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

// Manager is what the sandboxes run in.
type Manager interface {
	box.Manager
	Stiller
	Get(ctx context.Context, id api.SandboxID) (api.Sandbox, error)
	SetEgress(ctx context.Context, id api.SandboxID, p api.EgressPolicy) (api.Sandbox, error)
	// Dial connects with a port of a sandbox's loopback interface.
	Dial(ctx context.Context, id api.SandboxID, port int) (net.Conn, error)
	// Outline returns the row of a sandbox that would be created.
	Outline(ctx context.Context, req api.CreateSandbox) (api.Sandbox, error)
}

// Egress resolves the presets of policies.
type Egress interface {
	Resolve(ctx context.Context, p api.EgressPolicy) (_ api.EgressPolicy, env map[string]string, err error)
}

// Config is what computers are made of. All fields but Forker, ForkTime, Egress and Logger are
// required.
type Config struct {
	// Creator creates the sandboxes; Manager runs commands in those that it created.
	Creator Creator
	Manager Manager
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
	Logger    *slog.Logger
}

// Computers creates the sandboxes of tasks. It implements agent.Sandboxes for programs and
// repo.Computers for repositories. It may be used from several goroutines.
type Computers struct {
	cfg Config

	// copies are the turns of sandboxes that are copied.
	copies turns

	mu    sync.Mutex
	rooms map[api.TaskID]*room
}

var (
	_ agent.Sandboxes = (*Computers)(nil)
	_ repo.Computers  = (*Computers)(nil)
)

// New creates Computers.
func New(cfg Config) *Computers {
	cfg.ForkTime = cmp.Or(cfg.ForkTime, DefaultForkTime)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	return &Computers{cfg: cfg, rooms: map[api.TaskID]*room{}}
}

// Computer is the sandbox of a task. It implements agent.Sandbox and repo.Computer.
type Computer struct {
	*box.Box
	of *Computers
}

// List implements agent.Sandbox.
func (c Computer) List(ctx context.Context) ([]agent.FileInfo, error) {
	files, err := c.Box.List(ctx)
	list := make([]agent.FileInfo, len(files))
	for i, f := range files {
		list[i] = agent.FileInfo(f)
	}
	return list, err
}

// SetEgress implements agent.Sandbox.
func (c Computer) SetEgress(ctx context.Context, p api.EgressPolicy) (env map[string]string, err error) {
	if len(p.Presets) > 0 && c.of.cfg.Egress != nil {
		if _, env, err = c.of.cfg.Egress.Resolve(ctx, p); err != nil {
			return nil, err
		}
	}
	_, err = c.of.cfg.Manager.SetEgress(ctx, c.Info().ID, p)
	return env, err
}

// Start implements tool.Box.
func (c Computer) Start(ctx context.Context, req api.ExecRequest) (tool.Job, error) {
	j, err := c.Box.Start(ctx, req)
	if err != nil {
		return nil, err
	}
	return j, nil
}

// Talk implements repo.Computer.
func (c Computer) Talk(ctx context.Context, req api.ExecRequest) (repo.Conn, error) {
	p, err := c.Box.Pipe(ctx, req)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// Dial implements repo.Computer.
func (c Computer) Dial(ctx context.Context, port int) (net.Conn, error) {
	return c.of.cfg.Manager.Dial(ctx, c.Info().ID, port)
}

// open opens a sandbox that was just created.
func (p *Computers) open(ctx context.Context, row api.Sandbox, err error) (Computer, error) {
	if err != nil {
		return Computer{}, err
	}
	b, err := box.Open(ctx, p.cfg.Manager, row)
	return Computer{b, p}, err
}

// Create implements agent.Sandboxes.
func (p *Computers) Create(ctx context.Context, req api.CreateSandbox) (agent.Sandbox, error) {
	row, err := p.cfg.Creator.Create(ctx, req)
	c, err := p.open(ctx, row, err)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Layer implements repo.Computers.
func (p *Computers) Layer(ctx context.Context, key string, build func(ctx context.Context, dir string) error) (repo.Layer, func(), error) {
	sum := sha256.Sum256([]byte("repository\x00" + key))
	digest := layer.Digest("sha256-" + hex.EncodeToString(sum[:]))
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

// lease holds a layer that was just created, so that it is not garbage collected.
func (p *Computers) lease(digest layer.Digest, err error) (repo.Layer, func(), error) {
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

// Over implements repo.Computers.
func (p *Computers) Over(ctx context.Context, base []repo.Layer, changes []cache.Change) (repo.Layer, func(), error) {
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

// Workspace implements repo.Computers. The workspace belongs to the account of the context's
// principal, like the sandboxes that use it.
func (p *Computers) Workspace(ctx context.Context, task api.TaskID, layers ...repo.Layer) (api.WorkspaceID, error) {
	if id := p.room(task).workspace(ctx, layers); id != "" {
		return id, nil
	}
	return p.plain(ctx, task, layers)
}

// plain makes a workspace with nothing but its layers.
func (p *Computers) plain(ctx context.Context, task api.TaskID, layers []repo.Layer) (api.WorkspaceID, error) {
	w, err := p.cfg.Workspaces.Make(ctx, workspace.New{Task: task, Account: api.PrincipalOf(ctx).Account, Layers: digests(layers)})
	return w.ID, err
}

// Adopt implements repo.Computers.
func (p *Computers) Adopt(ctx context.Context, id api.WorkspaceID, from, to api.TaskID) error {
	return p.cfg.Workspaces.Adopt(ctx, id, from, to)
}

// Changes implements repo.Computers.
func (p *Computers) Changes(ctx context.Context, id api.WorkspaceID, dirs ...string) ([]cache.Change, []api.RefusedChange, func(), error) {
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

// Open implements repo.Computers.
func (p *Computers) Open(ctx context.Context, req api.CreateSandbox, id api.WorkspaceID, access []filerule.Access) (repo.Computer, error) {
	if c, err := p.room(req.Task).open(ctx, req, id, access); c != nil || err != nil {
		return c, err
	}
	req, err := p.carried(ctx, req, id)
	if err != nil {
		return nil, err
	}
	return given(p.over(ctx, req, id, access))
}

// given is a computer as an interface, which is nil after an error.
func given[C repo.Computer](c C, err error) (repo.Computer, error) {
	if err != nil {
		return nil, err
	}
	return c, nil
}

// over starts a sandbox over a workspace.
func (p *Computers) over(ctx context.Context, req api.CreateSandbox, id api.WorkspaceID, access []filerule.Access) (Computer, error) {
	w, err := p.cfg.Workspaces.Get(id)
	if err != nil {
		return Computer{}, err
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

// Clean implements repo.Computers.
func (p *Computers) Clean(ctx context.Context, req api.CreateSandbox, of api.WorkspaceID, layers ...repo.Layer) (repo.Computer, error) {
	req, err := p.carried(ctx, req, of)
	if err != nil {
		return nil, err
	}
	var ws sandbox.Workspace
	for _, l := range layers {
		ws.Layers = append(ws.Layers, layer.Digest(l))
	}
	return given(p.createIn(ctx, req, ws))
}

// createIn creates a sandbox with files at /workspace.
func (p *Computers) createIn(ctx context.Context, req api.CreateSandbox, ws sandbox.Workspace) (Computer, error) {
	row, err := p.cfg.Creator.CreateIn(ctx, req, ws)
	return p.open(ctx, row, err)
}
