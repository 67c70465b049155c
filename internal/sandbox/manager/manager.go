package manager

import (
	"context"
	"errors"
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
	// ImageIsolation returns the default isolation of a template that is a container image, and "" if it has none; it may be nil.
	ImageIsolation func(template string) string
	// Isolation is the default of requests that no other default is nearer to; empty is auto.
	Isolation string
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
	// CommandsChanged is called when a command of a sandbox starts or has ended; nil if nobody needs it. It must not block.
	CommandsChanged func(id api.SandboxID)
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

// Manager holds the sandboxes of one data directory. Each part has its own state, and is given to those who
// need that part. The methods of all parts may be called from several goroutines at once.
type Manager struct {
	// Backends chooses among the backends of this build.
	Backends  *choice.Chooser
	Planner   *Planner
	Creator   *Creator
	Templates *Templates
	Sandboxes *Sandboxes
	Guests    *Guests
	Saver     *Saver
	Pauser    *Pauser
	Mover     *Mover
	Forker    *Forker
	Policies  *Policies
	Recoverer *Recoverer

	table     *table
	lifecycle *lifecycle
	pool      *pool.Pool
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
		cfg.Watcher = noWatcher{}
	}
	clock := uptime.Clock{Now: cfg.Now, Uptime: cfg.Uptime}
	rows, log := cfg.Rows, cfg.Logger
	if cfg.Uptime != nil {
		rows = uptime.Rows{Rows: rows, Clock: clock}
	}
	t := newTable(rows)
	// What all parts share.
	facts := facts{cfg.Log, log}
	chooser := choice.New(cfg.Backends)
	resolver := outgoing.Policies{Server: cfg.Egress}
	origins := &origins{cfg.Templates, cfg.Snapshots, cfg.Backends}
	capacity := &capacity{cfg.Admission, facts, cfg.Watcher}
	run := command.New(command.Config{Rows: rows, Watcher: cfg.Watcher, Logger: log, Now: cfg.Now, Changed: cfg.CommandsChanged, Context: t.ctx, Go: t.wg.Go})
	guests := pool.New(pool.Config{Size: cfg.Pool, Logger: log, Now: cfg.Now, Restore: origins.restore})
	c := &lifecycle{table: t, facts: facts, rows: rows, run: run, egress: cfg.Egress, watcher: cfg.Watcher, now: cfg.Now, log: log}

	m := &Manager{Backends: chooser, table: t, lifecycle: c, pool: guests}
	m.Planner = &Planner{
		chooser: chooser, policies: resolver, origins: origins, imageUser: cfg.ImageUser, imageIsolation: cfg.ImageIsolation, isolation: cfg.Isolation,
		owner: cfg.Owner, build: cfg.Build, now: cfg.Now,
	}
	m.Guests = &Guests{table: t, run: run, rows: rows}
	m.Saver = &Saver{t, c, m.Planner, origins, chooser, m.Guests, guests, facts, rows}
	m.Pauser = &Pauser{
		table: t, lifecycle: c, saver: m.Saver, origins: origins, capacity: capacity, chooser: chooser, run: run, facts: facts, rows: rows, watcher: cfg.Watcher,
		owner: cfg.Owner, log: log,
	}
	m.Sandboxes = &Sandboxes{t, c, m.Pauser, rows}
	m.Mover = &Mover{t, c, m.Pauser, m.Sandboxes, origins, chooser, rows, cfg.Owner}
	m.Policies = &Policies{t, c, m.Pauser, resolver, chooser, cfg.Backends, facts, rows, log}
	m.Creator = &Creator{m.Planner, origins, t, c, capacity, m.Policies, m.Guests, guests, rows, cfg.Watcher, log}
	m.Forker = &Forker{m.Planner, origins, m.Creator, m.Saver, t, c, chooser, guests, facts, cfg.Workspaces, log}
	m.Templates = &Templates{m.Planner, origins, m.Creator, m.Sandboxes, m.Guests, m.Saver}
	m.Recoverer = &Recoverer{t, c, origins, capacity, m.Policies, guests, run, facts, cfg.Backends, rows, cfg.Owner, clock, log}
	c.watch = (&watch{t, c, m.Pauser, log}).run
	return m
}

// Alive counts the sandboxes that are starting, running or paused in memory.
func (m *Manager) Alive() int {
	return len(m.table.all())
}

// Lone counts those of them that work for no task.
func (m *Manager) Lone() (n int) {
	for _, in := range m.table.all() {
		if in.Row().Task == "" {
			n++
		}
	}
	return n
}

// noWatcher is a Watcher that sees nothing.
type noWatcher struct{}

func (noWatcher) Begin(ctx context.Context, _ sandbox.Step) (context.Context, func(sandbox.Outcome)) {
	return ctx, func(sandbox.Outcome) {}
}

func (noWatcher) Mark(context.Context) context.Context { return nil }

// Close kills every sandbox, except those that are paused to disk, and waits for everything
// that the manager started. The error joins what could not be killed.
func (m *Manager) Close(ctx context.Context) error {
	all := m.table.close()
	m.pool.Close()
	errs := make([]error, len(all))
	kills := make(chan struct{})
	for i, in := range all {
		go func() {
			defer func() { kills <- struct{}{} }()
			if _, err := m.lifecycle.end(ctx, in, stopped); err != errSuspended {
				errs[i] = err
			}
		}()
	}
	for range all {
		<-kills
	}
	m.table.wait()
	return errors.Join(errs...)
}

// Leave releases every sandbox that can continue without this daemon, ends the others, and
// waits for everything that the manager started. Another manager's Recover takes them over.
// It is called instead of Close, and gives how many were left.
func (m *Manager) Leave(ctx context.Context) (int, error) {
	all := m.table.close()
	m.pool.Close()
	var errs []error
	n := 0
	for _, in := range all {
		left, err := m.lifecycle.leave(ctx, in)
		if left {
			n++
		}
		if err != nil && err != errSuspended {
			errs = append(errs, err)
		}
	}
	m.table.wait()
	return n, errors.Join(errs...)
}
