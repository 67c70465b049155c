package daemon

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync/atomic"

	"hortus.dev/api"
	"hortus.dev/internal/agent/model/catalogue"
	"hortus.dev/internal/daemon/datadir"
	"hortus.dev/internal/daemon/fleet"
	"hortus.dev/internal/daemon/sessions"
	"hortus.dev/internal/daemon/upkeep"
	"hortus.dev/internal/egress/audit"
	"hortus.dev/internal/egress/registrycache"
	"hortus.dev/internal/egress/server"
	"hortus.dev/internal/platform/service"
	"hortus.dev/internal/platform/version"
	"hortus.dev/internal/repository/connected"
	"hortus.dev/internal/repository/git/cache"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/admission"
	"hortus.dev/internal/sandbox/manager"
	"hortus.dev/internal/sandbox/quota"
	"hortus.dev/internal/sandbox/template"
	"hortus.dev/internal/secret"
	"hortus.dev/internal/server/access"
	"hortus.dev/internal/server/console"
	"hortus.dev/internal/server/forward"
	"hortus.dev/internal/server/front"
	httpapi "hortus.dev/internal/server/http"
	"hortus.dev/internal/server/webhook"
	"hortus.dev/internal/storage/image"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/layer/archive"
	"hortus.dev/internal/storage/oci"
	"hortus.dev/internal/storage/snapshot"
	"hortus.dev/internal/storage/space"
	"hortus.dev/internal/storage/volume"
	"hortus.dev/internal/storage/workspace"
	"hortus.dev/internal/storage/workspace/sealed"
	"hortus.dev/internal/storage/workspace/shared"
	"hortus.dev/internal/store"
	"hortus.dev/internal/store/event"
	"hortus.dev/internal/store/ownership"
	"hortus.dev/internal/task"
	"hortus.dev/internal/task/delivery"
	"hortus.dev/internal/task/document"
	"hortus.dev/internal/task/hook"
	"hortus.dev/internal/task/plan"
	"hortus.dev/internal/task/sandboxes"
	"hortus.dev/internal/task/tally"
	"hortus.dev/internal/telemetry"
)

// System is everything that one daemon runs.
type System struct {
	cfg   Config
	dir   datadir.Dir
	log   *slog.Logger
	owner *ownership.Ownership
	// node is the ID of the data directory among those that share the database; empty if the rows are in a file.
	node api.NodeID
	// started reports whether this run took an earlier one over when it started.
	started func(api.OwnerID) bool
	// joining ends the renewals of a node that starts; nil if it has no row yet.
	joining func()
	// fleet is nil if the rows are in a file.
	fleet *fleet.Fleet
	// joined is fleet for goroutines that begin before it is set.
	joined    atomic.Pointer[fleet.Fleet]
	forwarder *forward.Forwarder
	// nodes is the listener for other nodes; nil if there is none.
	nodes net.Listener

	db store.Store
	// storePlace says where the rows are.
	storePlace string
	events     *event.Log
	telemetry  *telemetry.Telemetry

	layers  *layer.Store
	archive *archive.Archive // of layers; nil if there is none
	// artefactKey encrypts copies of snapshots and workspaces in the archive.
	artefactKey []byte
	layerAdded  chan struct{} // has something when a layer was added
	workspaces  *workspace.Store
	// shared are the workspaces that other hosts use too; nil without an archive of layers.
	shared *shared.Workspaces
	// sealed are files of workspaces in the archive, for other nodes; nil if there are no nodes, or no archive.
	sealed *sealed.Workspaces
	// space is the file system of the data directory.
	space     *space.Space
	snapshots *snapshot.Store
	volumes   *volume.Store
	// repositories is nil on a machine without git.
	repositories *cache.Cache
	// connected are the repositories that people connected.
	connected *connected.Repositories

	host      *image.Host
	images    *oci.Images
	templates *template.Templates
	inventory *template.Inventory
	gate      *admission.Gate
	backends  []sandbox.Backend
	sandboxes *manager.Manager
	outgoing  *server.Server
	recorder  *audit.Recorder
	secrets   *secret.Secrets
	webhooks  *webhook.Webhooks
	// packages is the package cache; nil if it is switched off.
	packages *registrycache.Cache
	asks     *audit.Asks
	runsc    string // path of the executable of gVisor sandboxes; empty if there is none

	// transport carries the calls to hosted models and forges.
	transport     http.RoundTripper
	models        *catalogue.Catalogue
	forges        *delivery.Deliverer
	taskSandboxes *sandboxes.Provider
	tasks         *task.Engine
	documents     *document.Documents
	sessions      *sessions.Sessions
	plans         *plan.Service
	hooks         *hook.Service
	keeper        *upkeep.Keeper

	guards  guards
	service *service.Service
	// on is the TCP listener.
	on front.Listeners
	// address is that of the TCP listener. It is set before anything is served, and again when a daemon without one opens one.
	address atomic.Pointer[address]

	// closers take down what was built, the last first.
	closers []func(context.Context) error
}

// Open takes ownership of a data directory, builds the system, and recovers what an earlier
// daemon left. The error is KindConflict if another daemon owns the directory.
func Open(ctx context.Context, cfg Config) (s *System, err error) {
	s = &System{cfg: cfg.withDefaults()}
	s.log = s.cfg.Logger
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close(context.WithoutCancel(ctx)))
			s = nil
		}
	}()
	for _, open := range []func(context.Context) error{
		s.openDir, s.openTelemetry, s.openStore, s.openWebhooks, s.openStorage, s.openSandboxes, s.openGuards, s.openTasks, s.openServers, s.openFront, s.recover, s.openFleet, s.openTakeover, s.openService,
	} {
		if err := open(ctx); err != nil {
			return s, err
		}
	}
	return s, nil
}

// onClose adds a step to Close.
func (s *System) onClose(f func(context.Context) error) { s.closers = append(s.closers, f) }

// Close takes everything down in the reverse order of Open, also after one that failed.
func (s *System) Close(ctx context.Context) error {
	var errs []error
	for i := len(s.closers) - 1; i >= 0; i-- {
		errs = append(errs, s.closers[i](ctx))
	}
	s.closers = nil
	return errors.Join(errs...)
}

// recover cleans up what earlier owners left.
func (s *System) recover(ctx context.Context) error {
	others, err := s.owner.Others(ctx, datadir.LockIsFree)
	if err != nil {
		return err
	}
	for _, o := range others.Silent {
		s.log.Warn("a daemon on another host has not renewed its lease; its sandboxes are recovered on that host", "host", o.Host, "owner", o.ID, "last", o.BeatAt)
	}
	// They end first: nobody takes over the rows of an owner that has not ended.
	if err := others.Forget(ctx); err != nil {
		return err
	}
	gone, err := s.inherited(ctx, others)
	if err != nil {
		return err
	}
	// Snapshots first: whether a sandbox is paused to disk depends on its snapshot. Files and sandboxes are those of this data directory,
	// also if another node takes over the rest.
	if _, err := s.snapshots.Recover(ctx, others.Ended); err != nil {
		s.log.Error("recovery of snapshots is incomplete", "error", err)
	}
	s.snapshots.Start()
	did, err := s.sandboxes.Recoverer.Recover(ctx, others.Ended)
	if err != nil {
		// A sandbox that could not be cleaned up keeps its row, and the next daemon tries again.
		s.log.Error("recovery of sandboxes is incomplete", "error", err)
	}
	if _, err := s.workspaces.Recover(ctx, others.Ended); err != nil {
		s.log.Error("recovery of workspaces is incomplete", "error", err)
	}
	if s.shared != nil {
		if err := s.shared.Start(); err != nil {
			return err
		}
	}
	if _, err := s.connected.Recover(ctx, others.Ended); err != nil {
		s.log.Error("recovery of repositories is incomplete", "error", err)
	}
	tasks, err := s.tasks.Recover(ctx, gone)
	if _, serr := s.taskSandboxes.Sweep(ctx, s.db.Task); serr != nil {
		s.log.Error("removal of abandoned workspaces is incomplete", "error", serr)
	}
	resumed := s.tasks.Resume(ctx)
	s.sessions.Recover(ctx, gone)
	if _, err := s.plans.Recover(ctx, gone); err != nil {
		s.log.Error("recovery of plans is incomplete", "error", err)
	}
	if err := s.hooks.Recover(ctx); err != nil {
		s.log.Error("recovery of webhooks is incomplete", "error", err)
	}
	if err == nil && did.Adopted+did.Lost+tasks > 0 {
		s.log.Info("recovered after an earlier daemon", "adopted", did.Adopted, "lost", did.Lost, "tasks", tasks, "resumed", resumed)
	}
	return err
}

// openService starts the daemon's life: from now on rows are removed, and guests booted ahead.
func (s *System) openService(context.Context) error {
	k := upkeep.NewPruner(upkeep.PrunerConfig{Prune: s.prune, Bounds: s.cfg.Keep, Now: s.db.Now, Logger: s.log})
	s.onClose(k.Close)
	s.onClose(upkeep.NewTrimmer(s.keeper, s.layerAdded, 0).Close)
	stop := func() {
		if s.fleet != nil {
			if err := s.fleet.Leave(context.Background()); err != nil {
				s.log.Warn("other nodes were not informed that this one stops", "error", err)
			}
		}
		s.gate.Close()
		_ = s.guards.builds.Close(context.Background()) // they end with the daemon, and with them their sandboxes
	}
	s.service = service.New(service.Config{
		Move: s.moves(), Sandboxes: s.sandboxes, Warmer: s.sandboxes.Creator, Streams: s.sandboxes.Guests.Streams, Tasks: workOfNode{s}, Followed: s.plans.Followed, StopAdmission: stop, StopEvents: s.events.Close,
		Usual: s.cfg.Usual, Idle: s.cfg.Idle, ReadyWithin: s.cfg.ReadyWithin, Drain: s.cfg.Drain,
		Level: s.cfg.Level, Getenv: s.cfg.Getenv, Logger: s.log, Dir: string(s.dir),
	})
	s.onClose(s.service.Close)
	s.onClose(s.newSchedule().Close)
	s.owner.Keep(s.log, func(err error) {
		s.log.Error("this daemon no longer owns its data directory; stopping and handing its sandboxes over to the next daemon", "error", err)
		_ = s.service.StopKeeping(context.Background(), true) // with force it cannot fail
	})
	return nil
}

// prune removes the rows that exceed a retention, if this daemon leads those with the same rows.
func (s *System) prune(ctx context.Context, keep store.Retention) (store.Pruned, error) {
	if leader := s.leader("old rows"); leader != nil {
		if leads, err := leader(ctx); err != nil || !leads {
			return store.Pruned{}, err
		}
	}
	return tally.Rows{Store: s.db}.Prune(ctx, keep)
}

// Serve listens and serves until ctx ends, a client stops the daemon, or it is idle. ready is called when clients can connect.
func (s *System) Serve(ctx context.Context, ready func()) error {
	signIn, err := s.oauthServer(ctx)
	if err != nil {
		return err
	}
	ln, err := datadir.Listen(s.dir.Socket())
	if err != nil {
		return err
	}
	on := s.on
	if err := on.Announce(ctx, s.cfg.Front, s.guards.keys); err != nil {
		ln.Close()
		return err
	}
	files, err := console.New()
	if err != nil {
		ln.Close()
		return err
	}
	at, signIns := s.reachAt(on.URL), s.newSignIns(on.Listener, on.TLS)
	open, closed := func() (string, error) { return on.URL, nil }, (*door)(nil)
	if on.Listener == nil {
		closed = s.newDoor(files, signIns)
		open = closed.open
	}
	api := s.httpServer(access.NewConsole(s.guards.keys, signIns, open))
	doors := map[forward.Door]http.Handler{forward.DoorV1: s.telemetry.HTTP("http", api), forward.DoorE2B: s.controlServer(), forward.DoorSandbox: s.planeServer(at)}
	// A client that can open the socket is its owner; NewListener checks that.
	servers := []service.Server{{
		Server:   front.NewSocketServer(s.operations(s.holding(doors[forward.DoorV1])), s.service.Track),
		Listener: httpapi.NewListener(ln),
	}}
	if on.Listener != nil {
		agents, inside := s.mcpServer(api, signIn.Challenge())
		all := s.servers(doors, s.consoleServers(files, signIns), agents, signIn)
		servers = append(servers, service.Server{Server: front.NewServer(s.front(all, signIns, on.TLS), on.TLS, s.cfg.Front.Bounds, s.service.Track, s.log), Listener: on.Listener}, inside)
	} else {
		servers = append(servers, closed.server(api))
	}
	if s.nodes != nil {
		servers = append(servers, s.nodeServer(doors))
	}
	if on.Redirect != nil {
		servers = append(servers, service.Server{Server: on.RedirectServer, Listener: on.Redirect})
	}
	s.log.Info("serving", "socket", s.dir.Socket(), "url", on.URL, "pid", os.Getpid())
	return s.service.Serve(ctx, servers, ready)
}

// front creates the handler of a TCP listener.
func (s *System) front(servers []front.Server, sessions front.Sessions, tls bool) *front.Front {
	b := s.cfg.Front.Bounds.WithDefaults()
	return &front.Front{
		Servers: servers, Authenticate: s.guards.authenticator.Authenticate, Sessions: sessions, Rest: b.Rest, Requests: quota.NewRequests(b.Conns),
		Origins: s.cfg.Front.Origins, TLS: tls, Now: s.db.Now, Holds: s.holds,
	}
}

// operations adds the paths for health checks and metrics to a handler.
func (s *System) operations(next http.Handler) http.Handler {
	return front.Operations(s.telemetry.Metrics(), s.missing, next)
}

// build identifies this binary.
func build() string { return version.Describe().Build }

// errOwned is the error for a data directory of another daemon.
func errOwned(dir datadir.Dir) error {
	return api.Errorf(api.KindConflict, "%s: %w", dir, datadir.ErrOwned).
		WithHint("use it (hortus daemon status), stop it (hortus daemon stop), or use another --data-dir")
}
