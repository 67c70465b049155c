package daemon

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/backend/container"
	"hortus.dev/internal/backend/gvisor"
	"hortus.dev/internal/backend/jail"
	"hortus.dev/internal/backend/jail/rundir"
	"hortus.dev/internal/backend/process"
	"hortus.dev/internal/door/access"
	"hortus.dev/internal/platform/bench"
	"hortus.dev/internal/platform/config"
	"hortus.dev/internal/platform/telemetry"
	"hortus.dev/internal/repository/git"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/admission"
	"hortus.dev/internal/storage/image"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/snapshot"
	"hortus.dev/internal/storage/upkeep"
	"hortus.dev/internal/storage/workspace"
	"hortus.dev/internal/store"
	"hortus.dev/internal/store/event"
	"hortus.dev/internal/store/retention"
	"hortus.dev/internal/store/sqlite"
	"hortus.dev/internal/task"
)

// Config is what a system is made from.
type Config struct {
	// DataDir holds all state; it is made when it is not there.
	DataDir string
	// Idle is how long the daemon stays when nobody is connected and nothing
	// lives; 0 means DefaultIdle, below 0 it never leaves by itself.
	Idle time.Duration
	// Pool is how many guests of each kind of sandbox are booted ahead; 0 means
	// DefaultPool, below 0 none are.
	Pool int
	// Runsc is the path of the executable that gVisor's sandboxes run; empty means
	// the embedded one or, if none is embedded, the one beside Executable.
	Runsc string
	// Executable is the path of the running program; empty means that there is no
	// directory to look for gVisor in.
	Executable string
	// Home and Path are where the host template looks for toolchains.
	Home, Path string
	// Getenv reads the variables that hosted models take their keys and addresses
	// from; nil means that none is set.
	Getenv func(string) string
	Logger *slog.Logger
	// Level is the Logger's level, where that can be changed while it runs.
	Level *slog.LevelVar
	// Forges are the hosts that the configuration names, beside what the
	// environment says; Policy is what a delivery may do.
	Forges []config.Forge
	Policy config.Policy
	// Room bounds what sandboxes may be promised; zero fields take the defaults.
	Room Room
	// Keep bounds the rows that are kept of what has ended; zero fields take the defaults.
	Keep retention.Bounds
	// Rates bounds how often each user's key may ask; zero fields take the defaults.
	Rates access.RatesConfig
	// Drain is how long streams of commands go on when a signal ends the daemon; 0
	// ends them at once, below 0 all are waited for.
	Drain time.Duration
	// NPM is a directory with an installed npm package e2b, which the bench measures;
	// empty for none.
	NPM string
	// Usual is the sandbox that most will ask for: guests of its kind are booted ahead,
	// and what is made over E2B's wire, which has no words for isolation and limits, is
	// like it.
	Usual api.CreateSandbox
	// Front is the TCP listener; its zero value is none.
	Front Front
	// ReadyWithin is how long a service manager that started the daemon waits at most
	// for it to be ready, while it serves already; 0 means DefaultReadyWithin.
	ReadyWithin time.Duration
}

// DefaultIdle is how long an idle daemon stays.
const DefaultIdle = 3 * time.Second

// DefaultReadyWithin is less than systemd gives a service to start.
const DefaultReadyWithin = time.Minute

// DefaultPool is how many guests of a kind wait for their sandbox. Each holds
// some two megabytes; two let a task and its next attempt start at once.
const DefaultPool = 2

// System is everything that one daemon runs.
type System struct {
	cfg   Config
	dir   dataDir
	log   *slog.Logger
	owner store.Owner

	db        *sqlite.DB
	events    *event.Log
	host      *image.Host
	shelf     *shelf
	models    catalogue
	sandboxes *sandbox.Manager
	tasks     *task.Engine
	bench     *bench.Bench
	runsc     string // what gVisor's sandboxes run; empty where there is none
	keeper    *upkeep.Keeper
	telemetry *telemetry.Telemetry
	gate      *admission.Gate

	services
	guards guards

	workspaces *workspace.Store
	snapshots  *snapshot.Store
	// repositories is nil where there is no git.
	repositories *git.Cache

	// closers take down what was built, the last first.
	closers []func(context.Context) error
	stop    chan struct{}
	// leaving says that nobody new should rely on this daemon.
	leaving atomic.Bool
	// keeping says that sandboxes are left running for the next daemon.
	keeping atomic.Bool
	// prepared is closed once it is known what keeps this host from running
	// sandboxes of the default kind: unfit, or nil.
	prepared chan struct{}
	unfit    error
	// warm is closed once nothing was missing; see missing.
	warm     chan struct{}
	warmOnce sync.Once
	// idle is how long Serve stays, in nanoseconds.
	idle atomic.Int64
	// reached is where the TCP listener is, once there is one.
	reached atomic.Pointer[string]
}

// backends lists the backends that are compiled in, the strongest first.
func (s *System) backends(guest *os.File, layers *layer.Store) ([]sandbox.Backend, error) {
	c, err := container.New(container.Config{Dir: s.dir.path("run/container"), Layers: layers, Workspaces: s.workspaces, Guest: guest.Name(), Logger: s.log})
	if err != nil {
		return nil, err
	}
	s.onClose(func(context.Context) error { return c.Close() })
	p, err := process.New(process.Config{Dir: s.dir.path("run/process"), Guest: guest, Path: s.cfg.Path, Logger: s.log})
	if err != nil {
		return nil, err
	}
	g, err := s.gvisor(guest, layers)
	if err != nil {
		return nil, err
	}
	return []sandbox.Backend{g, c, p}, nil
}

// gvisor makes the backend whose guests have kernels of their own. In a build that
// has none it says so itself.
func (s *System) gvisor(guest *os.File, layers *layer.Store) (*gvisor.Backend, error) {
	cfg := gvisor.Config{Jail: jail.Config{Dir: s.dir.path("run/gvisor"), Layers: layers, Workspaces: s.workspaces, Guest: guest.Name(), Logger: s.log}}
	used, err := rundir.ToolsInUse(s.dir.path("run/gvisor"))
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "data directory: %w", err)
	}
	t, err := s.unpackTools(guest, used)
	if api.KindOf(err) == api.KindUnsupported {
		cfg.Missing = api.Ability{Reason: err.Error(), Fix: api.HintOf(err)}
	} else if err != nil {
		return nil, err
	}
	if err == nil {
		cfg.Tools, cfg.Version, cfg.GuestDigest = t.dir, t.version, t.guest
		s.runsc = filepath.Join(t.dir, gvisor.RunscName)
	}
	b, err := gvisor.New(cfg)
	if err == nil {
		s.onClose(func(context.Context) error { return b.Close() })
	}
	return b, err
}

// Open takes ownership of a data directory, builds the system and brings rows
// and reality together. It fails with KindConflict when another daemon owns the
// directory.
func Open(ctx context.Context, cfg Config) (s *System, err error) {
	s = &System{cfg: cfg, log: cfg.Logger, stop: make(chan struct{}, 1), prepared: make(chan struct{}), warm: make(chan struct{})}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.cfg.Idle == 0 {
		s.cfg.Idle = DefaultIdle
	}
	if s.cfg.Pool == 0 {
		s.cfg.Pool = DefaultPool
	}
	if s.cfg.ReadyWithin == 0 {
		s.cfg.ReadyWithin = DefaultReadyWithin
	}
	s.idle.Store(int64(s.cfg.Idle))
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close(context.WithoutCancel(ctx)))
			s = nil
		}
	}()
	if s.dir, err = openDataDir(cfg.DataDir); err != nil {
		return s, err
	}
	lock, err := takeLock(s.dir.lock())
	if errors.Is(err, errOwned) {
		return s, api.Errorf(api.KindConflict, "%s: %w", s.dir, errOwned).
			WithHint("use it (hortus daemon status), stop it (hortus daemon stop), or name another --data-dir")
	}
	if err != nil {
		return s, api.Errorf(api.KindInternal, "lock the data directory: %w", err)
	}
	s.onClose(func(context.Context) error { lock.release(); return nil })

	for _, name := range []string{"run", "layers", "tasks"} {
		if err := os.MkdirAll(s.dir.path(name), 0o700); err != nil {
			return s, api.Errorf(api.KindInternal, "data directory: %w", err)
		}
	}
	s.openTelemetry()
	if err := s.openStore(ctx); err != nil {
		return s, err
	}
	if err := s.openGate(); err != nil {
		return s, err
	}
	if err := s.build(ctx); err != nil {
		return s, err
	}
	if err := s.recover(ctx); err != nil {
		return s, err
	}
	s.openRetention()
	s.keepWarm()
	return s, nil
}

func (s *System) onClose(f func(context.Context) error) { s.closers = append(s.closers, f) }

func (s *System) openStore(ctx context.Context) error {
	db, err := sqlite.Open(ctx, sqlite.Config{Path: s.dir.database(), Ahead: true, Logger: s.log})
	if err != nil {
		return err
	}
	s.db = db
	s.onClose(func(context.Context) error { return db.Close() })

	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	s.owner = store.Owner{ID: api.NewOwnerID(), Host: host, LockPath: s.dir.lock(), PID: os.Getpid(), StartedAt: time.Now().UTC()}
	if err := db.InsertOwner(ctx, s.owner); err != nil {
		return err
	}
	s.onClose(func(ctx context.Context) error { return db.EndOwner(ctx, s.owner.ID, time.Now().UTC()) })
	s.events = event.NewLog(event.Config{Store: db})
	s.onClose(func(context.Context) error { s.events.Close(); return nil })
	return nil
}

func (s *System) build(ctx context.Context) error {
	layers, err := layer.Open(s.dir.layers())
	if err != nil {
		return err
	}
	if err := s.openWorkspaces(ctx, layers); err != nil {
		return err
	}
	if err := s.openSnapshots(layers); err != nil {
		return err
	}
	guest, err := guestBinary(s.dir.path("bin"))
	if err != nil {
		return err
	}
	s.onClose(func(context.Context) error { return guest.Close() })
	s.host = image.NewHost(image.Config{Store: layers, Home: s.cfg.Home, Path: s.cfg.Path, Logger: s.log, Sudo: guest, SudoKey: Version().Build})
	if err := s.openModels(); err != nil {
		return err
	}
	backends, err := s.backends(guest, layers)
	if err != nil {
		return err
	}
	shown := &templates{host: s.host}
	s.sandboxes = sandbox.New(sandbox.Config{
		Owner: s.owner.ID, Backends: backends, Templates: shown,
		Rows: rows{s.db}, Log: facts{s.events, s.telemetry}, Snapshots: s.snapshots, Logger: s.log, Pool: max(s.cfg.Pool, 0),
		Uptime: uptime(), Build: Version().Build, Admission: room{s.gate}, Watcher: s.telemetry,
	})
	s.onClose(s.sandboxes.Close)
	s.watchHeld()
	if err := s.openGuards(); err != nil {
		return err
	}
	s.shelf = &shelf{file: s.dir.path("inventory.json"), templates: shown, sandboxes: s.sandboxes, debian: isDebian("/")}
	repositories, err := s.openRepositories(layers)
	if err != nil {
		return err
	}
	present := tools{shown, s.sandboxes, s.cfg.Path}
	s.tasks = task.New(task.Config{
		Store: rows{s.db}, Log: facts{s.events, s.telemetry}, Model: s.models.open, Record: record, Sandboxes: boxes{s.sandboxes, s.guards.sandboxes.Create}, Check: s.sandboxes.Check,
		Tools: present.of, Advise: adviser{present.of, isDebian("/")}.advise, Repositories: repositories,
		Dir: s.dir.tasks(), Owner: s.owner.ID, Logger: s.log,
	})
	s.onClose(s.tasks.Close)
	s.openServices(s.guards.sandboxes)
	s.bench = &bench.Bench{Sandboxes: s.sandboxes, Counters: s.counters(backends), Runsc: s.runsc, Place: s.benchPlaces(layers), Doors: s.benchDoors}
	s.keeper = s.newKeeper(layers, shown)
	return nil
}

// recover deals with what earlier owners left. This daemon holds the lock of the
// data directory, so every other owner with the same lock is gone; an owner with
// another lock is gone when that lock can be taken.
func (s *System) recover(ctx context.Context) error {
	owners, err := s.db.Owners(ctx)
	if err != nil {
		return err
	}
	// Owners that ended in order are not listed; whatever they left is nobody's.
	maybeAlive := map[api.OwnerID]bool{s.owner.ID: true}
	for _, o := range owners {
		if o.Host != s.owner.Host || (o.LockPath != s.owner.LockPath && !lockIsFree(o.LockPath)) {
			maybeAlive[o.ID] = true
		}
	}
	isGone := func(id api.OwnerID) bool { return !maybeAlive[id] }
	// Snapshots first: whether a sandbox is paused to disk hangs on its snapshot.
	if _, err := s.snapshots.Recover(ctx, isGone); err != nil {
		s.log.Error("recovery of snapshots left something behind", "error", err)
	}
	did, err := s.sandboxes.Recover(ctx, isGone)
	if err != nil {
		// What could not be cleaned keeps its row and is tried again by the
		// next daemon; it is no reason to serve nobody.
		s.log.Error("recovery left something behind", "error", err)
	}
	if _, err := s.workspaces.Recover(ctx, isGone); err != nil {
		s.log.Error("recovery of workspaces left something behind", "error", err)
	}
	for _, o := range owners {
		if isGone(o.ID) {
			if err := s.db.EndOwner(ctx, o.ID, time.Now().UTC()); err != nil {
				return err
			}
		}
	}
	t, err := s.tasks.Recover(ctx, isGone)
	if err != nil {
		return err
	}
	if did.Adopted+did.Lost+t > 0 {
		s.log.Info("recovered after an earlier daemon", "adopted", did.Adopted, "lost", did.Lost, "tasks", t)
	}
	return nil
}

// lockIsFree says whether nobody holds a lock. A file that is not there is held
// by nobody.
func lockIsFree(path string) bool {
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return true
	}
	l, err := takeLock(path)
	if err != nil {
		return false
	}
	l.release()
	return true
}

// Close takes everything down in the opposite order of its making. It is safe
// after an Open that failed.
func (s *System) Close(ctx context.Context) error {
	var errs []error
	for i := len(s.closers) - 1; i >= 0; i-- {
		errs = append(errs, s.closers[i](ctx))
	}
	s.closers = nil
	return errors.Join(errs...)
}
