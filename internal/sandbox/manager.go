package sandbox

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/storage/layer"
)

// Rows is where the manager keeps what exists. Its methods fail with
// KindNotFound and KindExists as their names suggest, and refuse to take a final
// row back to life.
type Rows interface {
	InsertSandbox(ctx context.Context, s api.Sandbox) error
	UpdateSandbox(ctx context.Context, s api.Sandbox) error
	Sandbox(ctx context.Context, id api.SandboxID) (api.Sandbox, error)
	// ListSandboxes gives the newest first; final ones too when all is set.
	ListSandboxes(ctx context.Context, all bool) ([]api.Sandbox, error)
	FindSandbox(ctx context.Context, prefix string) (api.SandboxID, error)

	InsertExec(ctx context.Context, e api.Exec) error
	UpdateExec(ctx context.Context, e api.Exec) error
	Exec(ctx context.Context, id api.ExecID) (api.Exec, error)
	ListExecs(ctx context.Context, id api.SandboxID) ([]api.Exec, error)
}

// Log is where the manager's facts go.
type Log interface {
	Append(ctx context.Context, s api.Stream, t api.EventType, data any) (api.Event, error)
}

// Templates turns a template's name into layers, the lowest first. It fails with
// KindNotFound for a name that it does not know.
type Templates interface {
	Layers(ctx context.Context, name string) ([]layer.Digest, error)
}

// Config is what a manager needs. All fields but Snapshots, Admission, Watcher,
// Logger, Now, Uptime and Build are required.
type Config struct {
	// Owner is the daemon run whose rows these are.
	Owner api.OwnerID
	// Backends stand in the order of their strength: auto takes the first that
	// is fit for untrusted code on this host.
	Backends  []Backend
	Templates Templates
	Rows      Rows
	Log       Log
	// Snapshots may be nil: nothing can be saved then.
	Snapshots Snapshots
	// Admission may be nil: nothing bounds then how many sandboxes there are.
	Admission Admission
	// Watcher may be nil.
	Watcher Watcher
	// Pool is how many guests of each kind of sandbox are booted ahead; 0 boots
	// each when it is asked for.
	Pool   int
	Logger *slog.Logger
	Now    func() time.Time
	// Uptime says how long the host's kernel has been up, and which run of it that is:
	// deadlines hold by it when another daemon goes on and the wall clock was set.
	Uptime func() (time.Duration, string)
	// Build names what sandboxes get for their guest.
	Build string
}

// Manager holds the sandboxes of one data directory. Its methods may be called
// from several goroutines at once.
type Manager struct {
	cfg Config
	log *slog.Logger
	now func() time.Time

	probes probes
	pool   *pool

	// ctx ends when the manager closes; what it starts in the background hangs
	// on it and is waited for by wg.
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	readers readers

	mu     sync.Mutex
	live   map[api.SandboxID]*live
	waking map[api.SandboxID]chan struct{}      // paused to disk, and being resumed or ended; closed when that is over
	woken  uint64                               // how many of those are over
	unwake map[api.SandboxID]context.CancelFunc // gives up the wait for room of one of them
	early  map[api.SandboxID]struct{}           // children of forks whose parent is being saved
	closed bool
}

// New makes a manager. It starts nothing; call [Manager.Recover] before the
// first Create.
func New(cfg Config) *Manager {
	m := &Manager{cfg: cfg, log: cfg.Logger, now: cfg.Now, live: map[api.SandboxID]*live{}, waking: map[api.SandboxID]chan struct{}{}, unwake: map[api.SandboxID]context.CancelFunc{}, early: map[api.SandboxID]struct{}{}}
	if m.log == nil {
		m.log = slog.New(slog.DiscardHandler)
	}
	if m.now == nil {
		m.now = time.Now
	}
	if cfg.Uptime != nil {
		m.cfg.Rows = stampedRows{cfg.Rows, m.now, cfg.Uptime}
	}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	m.pool = newPool(cfg.Pool, m.log, m.now, m.restore)
	return m
}

// Close kills every sandbox, but for those that are paused to disk, and waits for
// everything that the manager started.
// The error joins what could not be killed.
func (m *Manager) Close(ctx context.Context) error {
	m.mu.Lock()
	m.closed = true
	all := make([]*live, 0, len(m.live))
	for _, l := range m.live {
		all = append(all, l)
	}
	m.mu.Unlock()

	m.pool.close()
	errs := make([]error, len(all))
	var kills sync.WaitGroup
	for i, l := range all {
		kills.Go(func() {
			if _, err := m.end(ctx, l, stopped); err != errParked {
				errs[i] = err
			}
		})
	}
	kills.Wait()
	m.cancel()
	m.wg.Wait()
	return errors.Join(errs...)
}

// Alive counts the sandboxes that are starting, running or paused.
func (m *Manager) Alive() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.live)
}

// Get gives a sandbox's row, whether it lives or not.
func (m *Manager) Get(ctx context.Context, id api.SandboxID) (api.Sandbox, error) {
	if l, ok := m.lookup(id); ok {
		return l.snapshot(), nil
	}
	return m.cfg.Rows.Sandbox(ctx, id)
}

// List gives rows, the newest first: the live ones, or all.
func (m *Manager) List(ctx context.Context, all bool) ([]api.Sandbox, error) {
	return m.cfg.Rows.ListSandboxes(ctx, all)
}

// Find gives the identifier that a unique prefix stands for.
func (m *Manager) Find(ctx context.Context, prefix string) (api.SandboxID, error) {
	return m.cfg.Rows.FindSandbox(ctx, prefix)
}

// Execs lists the commands of a sandbox, the newest first.
func (m *Manager) Execs(ctx context.Context, id api.SandboxID) ([]api.Exec, error) {
	if _, err := m.Get(ctx, id); err != nil {
		return nil, err
	}
	rows, err := m.cfg.Rows.ListExecs(ctx, id)
	if err == nil {
		m.RefreshExecs(id, rows)
	}
	return rows, err
}

// Exec gives one command of a sandbox; KindNotFound for one of another.
func (m *Manager) Exec(ctx context.Context, id api.SandboxID, exec api.ExecID) (api.Exec, error) {
	row, err := m.cfg.Rows.Exec(ctx, exec)
	if api.KindOf(err) == api.KindNotFound || err == nil && row.Sandbox != id {
		return api.Exec{}, api.Errorf(api.KindNotFound, "sandbox %s has no command %.64q", id, exec)
	}
	if err != nil {
		return api.Exec{}, err
	}
	rows := []api.Exec{row}
	m.RefreshExecs(id, rows)
	return rows[0], nil
}

// RefreshExecs sets in rows of a sandbox's commands what is newer than what was stored:
// commands that run have written more.
func (m *Manager) RefreshExecs(id api.SandboxID, rows []api.Exec) {
	l, ok := m.lookup(id)
	if !ok {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, row := range rows {
		if x := l.execs[row.ID]; x != nil && row.State == api.ExecRunning {
			rows[i].OutputBytes = x.record().OutputBytes
		}
	}
}

func (m *Manager) lookup(id api.SandboxID) (*live, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l, ok := m.live[id]
	return l, ok
}

// find gives a sandbox that is live here, or else its row. One that is resumed from
// disk between the two looks is live: its row alone would say that it runs elsewhere.
func (m *Manager) find(ctx context.Context, id api.SandboxID) (*live, api.Sandbox, error) {
	for looks := 1; ; looks++ {
		if l, ok := m.lookup(id); ok {
			return l, api.Sandbox{}, nil
		}
		row, err := m.cfg.Rows.Sandbox(ctx, id)
		// One of this daemon's that has gone again by the next look has a row that
		// says so; what runs at the third is another daemon's.
		if err != nil || row.State.Final() || row.State == api.SandboxPaused && row.Snapshot != "" || looks == 3 {
			return nil, row, err
		}
	}
}

// here finds a sandbox that is live here, or says why nothing can be done with it.
func (m *Manager) here(ctx context.Context, id api.SandboxID) (*live, error) {
	l, row, err := m.find(ctx, id)
	switch {
	case l != nil || err != nil:
		return l, err
	case row.State == api.SandboxPaused && row.Snapshot != "":
		return nil, pausedToDisk(id)
	}
	return nil, api.Errorf(api.KindUnavailable, "sandbox %s is %s%s", id, row.State, because(row.Reason))
}

// running finds a sandbox that can do something now, or says why it cannot.
func (m *Manager) running(ctx context.Context, id api.SandboxID) (*live, error) {
	l, err := m.here(ctx, id)
	if err != nil {
		return nil, err
	}
	switch s := l.snapshot(); s.State {
	case api.SandboxRunning:
		return l, nil
	case api.SandboxPaused:
		return nil, api.Errorf(api.KindConflict, "sandbox %s is paused", id).
			WithHint("resume it first: hortus sandbox resume %s", id)
	default:
		return nil, api.Errorf(api.KindConflict, "sandbox %s is %s", id, s.State)
	}
}

// event appends a fact; a log that fails is reported and does not stop the work.
func (m *Manager) event(id api.SandboxID, t api.EventType, data any) {
	// Facts are kept even when the caller has gone away.
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if _, err := m.cfg.Log.Append(ctx, api.Stream{Kind: api.StreamSandbox, ID: string(id)}, t, data); err != nil {
		m.log.Error("event not stored", "sandbox", id, "type", t, "error", err)
	}
}
