package manager

import (
	"context"
	"log/slog"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/choice"
	"hortus.dev/internal/sandbox/command"
	"hortus.dev/internal/sandbox/outgoing"
	"hortus.dev/internal/sandbox/pool"
	"hortus.dev/internal/sandbox/uptime"
)

// Config is what a manager needs. All fields but Snapshots, Workspaces, Admission, Egress, Watcher, Logger,
// Now, Uptime and Build are required.
type Config struct {
	// Owner is the daemon run whose rows these are.
	Owner api.OwnerID
	// Backends are ordered by strength: auto selects the first that isolates untrusted code
	// on this host.
	Backends  []sandbox.Backend
	Templates sandbox.Templates
	// ImageUser returns the default user of a template that is a container image, and "" for
	// other templates. Without it no template is an image.
	ImageUser func(template string) string
	Rows      sandbox.Rows
	Log       sandbox.Log
	// Snapshots may be nil: nothing can be saved then.
	Snapshots sandbox.Snapshots
	// Workspaces may be nil: sandboxes with a durable workspace cannot be forked then.
	Workspaces sandbox.WorkspaceForks
	// Admission returns the admission of the host on which a backend, by its name, starts
	// sandboxes. Without one, or if it returns nil, their number has no limit.
	Admission func(backend string) sandbox.Admission
	// Egress serves the outgoing connections of sandboxes. Without it a policy that opens
	// anything is refused.
	Egress sandbox.EgressServer
	// Watcher may be nil.
	Watcher sandbox.Watcher
	// Pool is the number of guests of each kind that are booted ahead; 0 boots each when
	// it is requested.
	Pool   int
	Logger *slog.Logger
	Now    func() time.Time
	// Uptime returns the uptime of the host's kernel and its boot ID. Another daemon uses it
	// to keep deadlines if the wall clock was set.
	Uptime func() (time.Duration, string)
	// Build names what sandboxes get for their guest.
	Build string
}

// Manager holds the sandboxes of one data directory. Its methods may be called from
// several goroutines at once.
type Manager struct {
	*core
	commands
	saves
	recovery
	policies
}

// New makes a manager. It starts nothing; call Recover before the first Create.
func New(cfg Config) *Manager {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Watcher == nil {
		cfg.Watcher = unwatched{}
	}
	if cfg.Uptime != nil {
		cfg.Rows = uptime.Rows{Rows: cfg.Rows, Clock: uptime.Clock{Now: cfg.Now, Uptime: cfg.Uptime}}
	}
	c := &core{
		planner: &planner{choice.New(cfg.Backends), outgoing.Policies{Server: cfg.Egress}, cfg, cfg.Now}, log: cfg.Logger,
		table: map[api.SandboxID]*live{},
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.run = command.New(command.Config{
		Rows: cfg.Rows, Watcher: cfg.Watcher, Logger: cfg.Logger, Now: cfg.Now, Context: c.ctx, Go: c.wg.Go,
	})
	c.pool = pool.New(pool.Config{Size: cfg.Pool, Logger: cfg.Logger, Now: cfg.Now, Restore: saves{c}.restore})
	return &Manager{c, commands{c}, saves{c}, recovery{c}, policies{c}}
}

// unwatched is a Watcher that sees nothing.
type unwatched struct{}

func (unwatched) Begin(ctx context.Context, _ sandbox.Step) (context.Context, func(sandbox.Outcome)) {
	return ctx, func(sandbox.Outcome) {}
}

func (unwatched) Mark(context.Context) context.Context { return nil }

// Alive counts the sandboxes that are starting, running or paused in memory.
func (m *Manager) Alive() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.table)
}

// Get returns a sandbox's row, whether it lives or not.
func (m *Manager) Get(ctx context.Context, id api.SandboxID) (api.Sandbox, error) {
	if l, ok := m.lookup(id); ok {
		return l.Row(), nil
	}
	return m.cfg.Rows.Sandbox(ctx, id)
}

// List returns rows, the newest first: the live ones, or all.
func (m *Manager) List(ctx context.Context, all bool) ([]api.Sandbox, error) {
	return m.cfg.Rows.ListSandboxes(ctx, all)
}

// Find returns the ID with a unique prefix.
func (m *Manager) Find(ctx context.Context, prefix string) (api.SandboxID, error) {
	return m.cfg.Rows.FindSandbox(ctx, prefix)
}
