package daemon

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent/model/catalogue"
	"hortus.dev/internal/backend/binaries"
	"hortus.dev/internal/backend/container"
	"hortus.dev/internal/backend/docker"
	"hortus.dev/internal/backend/gvisor"
	"hortus.dev/internal/backend/jail"
	"hortus.dev/internal/backend/jail/rundir"
	"hortus.dev/internal/backend/microvm"
	"hortus.dev/internal/backend/process"
	"hortus.dev/internal/backend/wasm"
	"hortus.dev/internal/daemon/adapter"
	"hortus.dev/internal/daemon/datadir"
	"hortus.dev/internal/daemon/sessions"
	"hortus.dev/internal/platform/machine"
	"hortus.dev/internal/platform/version"
	"hortus.dev/internal/repository/connected"
	"hortus.dev/internal/repository/git/cache"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/admission"
	"hortus.dev/internal/sandbox/manager"
	"hortus.dev/internal/sandbox/template"
	"hortus.dev/internal/storage/artefact"
	"hortus.dev/internal/storage/image"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/layer/archive/place"
	"hortus.dev/internal/storage/oci"
	"hortus.dev/internal/storage/snapshot"
	"hortus.dev/internal/storage/volume"
	"hortus.dev/internal/storage/workspace"
	"hortus.dev/internal/storage/workspace/register"
	"hortus.dev/internal/storage/workspace/shared"
	"hortus.dev/internal/store/database"
	"hortus.dev/internal/store/event"
	"hortus.dev/internal/store/ownership"
	"hortus.dev/internal/task"
	"hortus.dev/internal/task/advice"
	"hortus.dev/internal/task/delivery"
	"hortus.dev/internal/task/document"
	"hortus.dev/internal/task/external"
	"hortus.dev/internal/task/hook"
	"hortus.dev/internal/task/journal"
	"hortus.dev/internal/task/lesson"
	"hortus.dev/internal/task/plan"
	"hortus.dev/internal/task/repo"
	"hortus.dev/internal/task/sandboxes"
	"hortus.dev/internal/task/session"
	"hortus.dev/internal/task/setup"
	"hortus.dev/internal/task/workstream"
	"hortus.dev/internal/telemetry"
)

// openDir opens the data directory and acquires its lock.
func (s *System) openDir(context.Context) (err error) {
	if s.dir, err = datadir.Open(s.cfg.DataDir); err != nil {
		return err
	}
	lock, err := datadir.AcquireLock(s.dir.Lock())
	if errors.Is(err, datadir.ErrOwned) {
		return errOwned(s.dir)
	}
	if err != nil {
		return api.Errorf(api.KindInternal, "lock the data directory: %w", err)
	}
	s.onClose(func(context.Context) error { lock.Release(); return nil })
	for _, name := range []string{"run", "layers", "tasks"} {
		if err := os.MkdirAll(s.dir.Path(name), 0o700); err != nil {
			return api.Errorf(api.KindInternal, "data directory: %w", err)
		}
	}
	return nil
}

// openTelemetry opens metrics and traces, and the client of hosted models and forges.
func (s *System) openTelemetry(context.Context) error {
	s.telemetry = telemetry.New(telemetry.Config{Version: version.Describe().Version, Getenv: s.cfg.Getenv, Logger: s.log})
	s.onClose(s.telemetry.Close)
	s.transport = http.DefaultTransport
	if t, ok := http.DefaultTransport.(*http.Transport); ok {
		t = t.Clone()
		s.transport = t
		s.onClose(func(context.Context) error { t.CloseIdleConnections(); return nil })
	}
	return nil
}

// reserveBytes is what a full disk leaves to the database for writes that free space.
const reserveBytes = 16 << 20

// openStore opens the database and the event log, and registers this daemon as an owner.
func (s *System) openStore(ctx context.Context) (err error) {
	db, err := s.openDatabase(ctx)
	if err != nil {
		return err
	}
	if s.artefactKey, err = db.DeriveKey("snapshots in an archive"); err != nil {
		return errors.Join(err, db.Close())
	}
	s.db, s.storePlace = db, db.Place()
	s.onClose(func(context.Context) error { return s.db.Close() })
	if s.cfg.Store.URL != "" {
		if s.node, err = s.dir.NodeID(); err != nil {
			return err
		}
	}
	if s.owner, err = ownership.Register(ctx, s.db, s.node, s.dir.Lock()); err != nil {
		return err
	}
	s.onClose(s.owner.Close)
	log := event.Config{Store: s.db, Now: s.db.Now}
	if s.cfg.Store.URL != "" {
		log.Poll, log.Others = pollEvents, s.hasOthers
	}
	s.events = event.NewLog(log)
	s.onClose(func(context.Context) error { s.events.Close(); return nil })
	return nil
}

// nodeName is the name of the node that a run is or was of; empty for a daemon alone.
func (s *System) nodeName(ctx context.Context, owner api.OwnerID) string {
	if f := s.joined.Load(); f != nil {
		return f.NameOf(ctx, owner)
	}
	return ""
}

// hasOthers reports whether other nodes share the database now.
func (s *System) hasOthers() bool {
	f := s.joined.Load()
	return f != nil && f.Others()
}

// pollEvents is the time between two looks at a stream for events of other daemons with the same database.
const pollEvents = 2 * time.Second

// openDatabase opens the file of the data directory, or the database of a server.
func (s *System) openDatabase(ctx context.Context) (*database.DB, error) {
	c := s.cfg.Store
	if c.URL == "" {
		if err := s.dir.CheckStoreIsHere(); err != nil {
			return nil, err
		}
		return database.OpenSQLite(ctx, database.SQLite{Path: s.dir.Database(), Ahead: true, Reserve: reserveBytes, Logger: s.log})
	}
	password, err := readPassword(c.PasswordFile)
	if err != nil {
		return nil, err
	}
	db, err := database.OpenPostgres(ctx, database.Postgres{URL: c.URL, Password: password, KeyFile: cmp.Or(c.KeyFile, s.dir.DatabaseKey()), Ahead: s.dir.RowsAhead(), Logger: s.log})
	if err != nil {
		return nil, err
	}
	if err := s.dir.BindStore(db.ID(), db.Place()); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// maxPassword is the maximum size of the file with the password of a database.
const maxPassword = 4 << 10

// readPassword reads the password of a database; "" for no file.
func readPassword(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	f, err := os.Open(file)
	if err != nil {
		return "", api.Errorf(api.KindInvalid, "store.password-file: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxPassword+1))
	password := strings.TrimRight(string(b), "\r\n")
	if err == nil && (password == "" || len(b) > maxPassword) {
		err = errors.New("it is empty, or longer than 4 KiB")
	}
	if err != nil {
		return "", api.Errorf(api.KindInvalid, "store.password-file: read %s: %w", file, err)
	}
	return password, nil
}

// facts returns the event log, counted by the metrics.
func (s *System) facts() adapter.Facts {
	return adapter.Facts{Log: s.events, Metrics: s.telemetry, Lifecycle: s.webhooks.Wake}
}

// openStorage opens layers, workspaces, snapshots and volumes.
func (s *System) openStorage(ctx context.Context) (err error) {
	if err := s.openSpace(); err != nil {
		return err
	}
	s.layerAdded = make(chan struct{}, 1)
	added := func() {
		select {
		case s.layerAdded <- struct{}{}:
		default: // the next look sees this one too
		}
	}
	cfg := layer.Config{Dir: s.dir.Layers(), Space: s.space.In(s.dir.Layers()), Added: added, Logger: s.log}
	if s.cfg.LayerArchive != "" {
		if s.archive, err = place.Open(s.cfg.LayerArchive); err != nil {
			return err
		}
		cfg.Archive = s.archive
		s.watchArchive(ctx)
	}
	if s.layers, err = layer.New(cfg); err != nil {
		return err
	}
	s.onClose(func(context.Context) error { s.layers.Close(); return nil })
	s.workspaces, err = workspace.Open(ctx, workspace.Config{
		Dir: s.dir.Path("workspaces"), Layers: s.layers, Space: s.space.In(s.dir.Path("workspaces")), Rows: s.db, Owner: s.owner.Owner.ID, Elsewhere: s.elsewhere, Continued: s.continued, Now: s.db.Now, Logger: s.log,
		Released: func(id api.WorkspaceID) {
			if s.shared != nil {
				s.shared.Released(id)
			}
		},
	})
	if err != nil {
		return err
	}
	s.onClose(func(context.Context) error { s.workspaces.Close(); return nil })
	if s.archive != nil {
		s.shared = shared.New(shared.Config{
			Store: s.workspaces, Layers: s.layers, Logger: s.log,
			Register: register.New(register.Config{Blobs: s.archive.Blobs, Host: s.owner.Owner.Host}),
		})
		s.onClose(s.shared.Close)
	}
	if err := s.openSealed(); err != nil {
		return err
	}
	saved := snapshot.Config{
		Dir: s.dir.Path("snapshots"), Layers: s.layers, Space: s.space.In(s.dir.Path("snapshots")), Rows: s.db, Owner: s.owner.Owner.ID, Logger: s.log,
		Elsewhere: s.elsewhere, ArchiveAll: s.cfg.SnapshotArchive, FetchedBytes: s.cfg.FetchedBytes, Now: s.db.Now,
	}
	if s.archive != nil {
		if saved.Artefacts, err = artefact.New(artefact.Config{Blobs: s.archive.Blobs, Key: s.artefactKey}); err != nil {
			return err
		}
	}
	if s.snapshots, err = snapshot.Open(saved); err != nil {
		return err
	}
	s.onClose(func(context.Context) error { return s.snapshots.Close() })
	s.volumes, err = volume.Open(ctx, volume.Config{Dir: s.dir.Path("volumes"), Rows: s.db, Node: s.node, Now: s.db.Now, CheckSpace: s.space.In(s.dir.Path("volumes")).CheckOf, Logger: s.log})
	return err
}

// openSandboxes opens the backends and their manager.
func (s *System) openSandboxes(ctx context.Context) error {
	room := s.cfg.Room
	room.Measure, room.Waited, room.Logger = admission.Measurer(string(s.dir)), s.telemetry.Waited, s.log
	gate, err := admission.Open(room)
	if err != nil {
		return err
	}
	s.gate = gate
	s.onClose(func(context.Context) error { gate.Close(); return nil })
	guest, err := binaries.Guest(s.dir.Path("bin"))
	if err != nil {
		return err
	}
	s.onClose(func(context.Context) error { return guest.Close() })
	s.host = image.NewHost(image.Config{Store: s.layers, Home: s.cfg.Home, Path: s.cfg.Path, Toolchains: s.cfg.Toolchains, Alike: s.node != "" && s.archive != nil, Logger: s.log, Sudo: guest, SudoKey: build()})
	if s.images, err = oci.Open(oci.Config{
		Dir: s.dir.Path("images"), Layers: s.layers, Sudo: guest, SudoKey: build(), Logger: s.log,
		CheckIsolation: func(name string) error { return s.sandboxes.Backends.Known(name) },
	}); err != nil {
		return err
	}
	s.templates = template.New(s.host, s.images)
	if s.backends, err = s.newBackends(ctx, guest); err != nil {
		return err
	}
	if s.outgoing, err = s.openEgress(ctx); err != nil {
		return err
	}
	s.sandboxes = manager.New(manager.Config{
		Egress: s.outgoing, Workspaces: s.openSpaces(),
		Owner: s.owner.Owner.ID, Backends: s.backends, Templates: s.templates, ImageUser: s.templates.ImageUser, ImageIsolation: s.templates.ImageIsolation,
		Isolation: s.cfg.Usual.Isolation,
		Rows:      s.db, Log: s.facts(), Snapshots: s.snapshots, Now: s.db.Now, Logger: s.log, Pool: max(s.cfg.Pool, 0),
		Uptime: machine.Uptime(), Build: build(), Admission: func(string) sandbox.Admission { return gate }, Watcher: s.telemetry,
		CommandsChanged: func(id api.SandboxID) {
			s.events.Changed(api.Stream{Kind: api.StreamCommands, ID: string(id)})
		},
	})
	s.onClose(s.sandboxes.Close)
	s.inventory = template.NewInventory(template.InventoryConfig{
		File: s.dir.Path("inventory.json"), Templates: s.templates, Backends: s.sandboxes.Backends, Debian: machine.IsDebian("/"),
	})
	s.telemetry.Watch(telemetry.Gauges{
		Sandboxes: func(ctx context.Context) ([]api.Sandbox, error) { return s.sandboxes.Sandboxes.List(ctx, false) },
		Memory:    s.sandboxes.Sandboxes.Memory,
		Pool:      s.sandboxes.Creator.Warm,
		Packages:  s.countPackages,
		Admission: func() (promised, budget int64, waiting int) {
			g := gate.State()
			return g.Memory, g.MemoryBudget, g.Waiting
		},
	})
	return nil
}

// tools lists the programs of sandboxes.
func (s *System) tools() template.Tools {
	report := func(ctx context.Context, req api.CreateSandbox) (api.BackendReport, error) {
		req.KeyIsolation = api.PrincipalOf(ctx).KeyIsolation()
		return s.sandboxes.Planner.Report(ctx, req)
	}
	return template.Tools{Templates: s.templates, Report: report, Saved: s.snapshots.LayersOf, Path: s.cfg.Path}
}

// newBackends lists the backends that are compiled in, the strongest first.
func (s *System) newBackends(ctx context.Context, guest *os.File) ([]sandbox.Backend, error) {
	c, err := container.New(container.Config{Dir: s.dir.Path("run/container"), Layers: s.layers, Workspaces: s.workspaces, Space: s.space.In(s.workspaces.Dir()), Guest: guest.Name(), Logger: s.log})
	if err != nil {
		return nil, err
	}
	s.onClose(func(context.Context) error { return c.Close() })
	p, err := process.New(process.Config{Dir: s.dir.Path("run/process"), Guest: guest, Path: s.cfg.Path, Logger: s.log})
	if err != nil {
		return nil, err
	}
	d, err := docker.New(docker.Config{Dir: s.dir.Path("run/docker"), Layers: s.layers, Workspaces: s.workspaces, Guest: guest.Name(), Host: s.cfg.DockerHost, Certificates: s.cfg.DockerCertificates, Runtime: s.cfg.DockerRuntime, Logger: s.log})
	if err != nil {
		return nil, err
	}
	s.onClose(func(context.Context) error { return d.Close() })
	g, err := s.gvisor(guest)
	if err != nil {
		return nil, err
	}
	e, err := s.e2b(guest)
	if err != nil {
		return nil, err
	}
	y, err := s.daytona(guest)
	if err != nil {
		return nil, err
	}
	k, err := s.kubernetes(ctx)
	if err != nil {
		return nil, err
	}
	w, err := wasm.New(wasm.Config{Dir: s.dir.Path("run/wasm"), Modules: s.dir.Path("wasm"), Logger: s.log})
	if err != nil {
		return nil, err
	}
	s.onClose(func(context.Context) error { return w.Close() })
	m, err := s.microvm(guest)
	if err != nil {
		return nil, err
	}
	return []sandbox.Backend{g, c, d, m, w, p, e, y, k}, nil
}

// microvm creates the backend of virtual machines.
func (s *System) microvm(guest *os.File) (*microvm.Backend, error) {
	disks := s.dir.Path("disks")
	cfg := microvm.Config{
		Dir: s.dir.Path("run/microvm"), Images: disks, Space: s.space.In(disks), Layers: s.layers, Kernel: s.dir.Path("kernel"), Guest: guest.Name(),
		Emulate: s.cfg.EmulateMachines, Logger: s.log,
	}
	if err := binaries.Static(guest); err != nil {
		cfg.Missing = api.Ability{Reason: err.Error(), Fix: api.HintOf(err)}
	}
	b, err := microvm.New(cfg)
	if err == nil {
		s.onClose(func(context.Context) error { return b.Close() })
	}
	return b, err
}

// gvisor creates the gVisor backend. In a build without gVisor the backend reports that.
func (s *System) gvisor(guest *os.File) (*gvisor.Backend, error) {
	dir := s.dir.Path("run/gvisor")
	cfg := gvisor.Config{Jail: jail.Config{Dir: dir, Layers: s.layers, Workspaces: s.workspaces, Space: s.space.In(s.workspaces.Dir()), Guest: guest.Name(), Logger: s.log}}
	used, err := rundir.ToolsInUse(dir)
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "data directory: %w", err)
	}
	t, err := binaries.Unpack(binaries.Config{Dir: s.dir.Path("bin"), Runsc: s.cfg.Runsc, Executable: s.cfg.Executable, InUse: used}, guest)
	switch {
	case api.KindOf(err) == api.KindUnsupported:
		cfg.Missing = api.Ability{Reason: err.Error(), Fix: api.HintOf(err)}
	case err != nil:
		return nil, err
	default:
		cfg.Tools, cfg.Version, cfg.GuestDigest = t.Dir, t.Version, t.Guest
		cfg.CopyMemory = s.cfg.CopyMemory || !gvisor.SharesMemory(t.Version)
		s.runsc = filepath.Join(t.Dir, gvisor.RunscName)
	}
	b, err := gvisor.New(cfg)
	if err == nil {
		s.onClose(func(context.Context) error { return b.Close() })
	}
	return b, err
}

// openTasks opens the models, repositories and the engine of tasks.
func (s *System) openTasks(ctx context.Context) (err error) {
	s.secrets.Warn(ctx, "model", s.cfg.KeySecrets)
	s.secrets.Warn(ctx, "forge", delivery.TokenSecrets(s.cfg.Forges))
	s.models, err = catalogue.New(catalogue.Config{Getenv: s.cfg.Getenv, KeySecrets: s.cfg.KeySecrets, Key: s.secrets.KeyFor, Transport: s.transport})
	if err != nil {
		return err
	}
	s.taskSandboxes = sandboxes.New(sandboxes.Config{Creator: s.guards.quota, Forker: s.guards.quota, Guests: s.sandboxes.Guests, Lifecycle: s.sandboxes.Sandboxes, Stiller: s.sandboxes.Saver, Policies: s.sandboxes.Policies, Planner: s.guards.quota, Egress: s.outgoing, Layers: s.layers, Workspaces: s.workspaces, Durable: s.guards.durable, Task: s.db.Task, Sandboxes: s.worked, Now: s.db.Now, Logger: s.log})
	s.sessions = sessions.Open(s.workspaces, checkpoints{s}, s.sandboxes.Sandboxes, s.sandboxes.Saver, s.log)
	s.onClose(s.sessions.Sandboxes.Close)
	book, err := s.lessons()
	if err != nil {
		return err
	}
	tools := s.tools()
	repositories, err := s.openRepositories()
	if err != nil {
		return err
	}
	s.documents = document.New(document.Config{Rows: s.db, Now: s.db.Now, Room: s.takeSpace, Cache: s.repositories, Source: s.forges.Source})
	claims := task.Claims{Tasks: s.db, Key: s.repositoryKey, Session: s.sessionKey}
	owners := workstream.New(workstream.Config{
		Sources: []workstream.Source{plan.Claims{Rows: s.db}, claims}, Others: s.hasOthers, Poll: pollEvents,
		Exclusive: func(ctx context.Context, account string, do func() error) error {
			return s.db.Exclusive(ctx, "workstreams "+account, do)
		},
	})
	var onTasks task.Elsewhere
	var onSessions session.Elsewhere
	var onPlans plan.Elsewhere
	if others := (otherNodes{s}); s.node != "" {
		onTasks, onSessions, onPlans = tasksElsewhere{others}, sessionsElsewhere{others}, plansElsewhere{others}
	}
	s.tasks = task.New(task.Config{
		Store: s.db, Now: s.db.Now, Log: s.facts(), Model: s.models.Open, Record: record, Sandboxes: s.taskSandboxes, Check: s.guards.quota.Check,
		Tools: tools.Of, Advise: advice.Adviser{Tools: tools.Of, Debian: machine.IsDebian("/"), Provided: s.provided, Needs: s.needs, Toolchains: s.host.Toolchains}.Advise, Repositories: repositories, OffLimits: s.cfg.Policy.OffLimits,
		Journal: journal.New(journal.Config{Rows: s.db, Owner: s.owner.Owner.ID, Now: s.db.Now}), Events: s.events.Read, Appended: s.facts().Appended,
		Room: s.takeSpace,
		Dir:  s.dir.Tasks(), Owner: s.owner.Owner.ID, Bring: s.bring, Elsewhere: onTasks, StepTime: s.cfg.StepTime, Logger: s.log, Lessons: book, Documents: s.documents,
		Workstreams: owners, Claims: claims, Gate: s.savedGate, Isolation: s.isolationOf,
	})
	s.onClose(s.tasks.Close)
	s.sessions.Begin(session.Config{Rows: s.db, Now: s.db.Now, Engine: s.tasks, Room: s.takeSpace, Log: s.facts(), Dir: s.dir.Path("sessions"), TaskDir: s.dir.Tasks(), Owner: s.owner.Owner.ID, Elsewhere: onSessions})
	s.onClose(s.sessions.Close)
	s.plans = plan.New(plan.Config{
		Rows: s.db, Now: s.db.Now, Tasks: s.tasks, Workstreams: owners, Git: s.repositories, Source: s.forges.Source, Model: s.models.Open, Titles: s.titles, Log: s.facts(), Owner: s.owner.Owner.ID, Archive: s.commits(), Elsewhere: onPlans, Logger: s.log,
		Reviews: s.forges, FollowEvery: s.cfg.FollowEvery,
	})
	s.onClose(s.plans.Close)
	s.hooks = hook.New(hook.Config{
		Rows: s.db, Now: s.db.Now, Repositories: s.connected, Secrets: s.secrets, Engine: s.tasks, Task: s.db.Task, Log: s.facts(), Locate: s.forges.Location, Address: s.publicURL, Logger: s.log,
		Follows: s.followsTask(),
		Forge:   func(ctx context.Context, remote string) (hook.Forge, error) { return s.forges.Repository(ctx, remote) },
	})
	s.onClose(s.hooks.Close)
	return nil
}

// publicURL is where forges and browsers reach the daemon; empty if it has no TCP listener.
func (s *System) publicURL() string {
	if s.cfg.Front.PublicURL != "" {
		return strings.TrimRight(s.cfg.Front.PublicURL, "/")
	}
	if a := s.address.Load(); a != nil {
		return a.url
	}
	return ""
}

// savedGate returns the gate command of a connected repository of an account; empty if it has none.
func (s *System) savedGate(ctx context.Context, account, url string) (string, error) {
	r, err := s.connection(ctx, account, url)
	return r.Verify, err
}

// isolationOf returns the repository whose default isolation holds for an account and an address; an empty one if there is none.
func (s *System) isolationOf(ctx context.Context, account, url string) (api.Repository, error) {
	return s.connected.IsolationOf(ctx, account, url)
}

// connection returns the repository that an account has connected with an address; an empty one if there is none.
func (s *System) connection(ctx context.Context, account, url string) (api.Repository, error) {
	r, _, err := s.connected.Own(ctx, account, url)
	return r, err
}

// policyOf returns the repository whose branch policy holds for an account and an address; an empty one if there is none.
func (s *System) policyOf(ctx context.Context, account, url string) (api.Repository, error) {
	return s.connected.PolicyOf(ctx, account, url)
}

// repositoryKey names a repository for those who change files of it; empty for the one of sessions without a repository, which share nothing.
func (s *System) repositoryKey(url string) string {
	if s.repositories == nil || filepath.Dir(url) == s.dir.Path("sessions") {
		return ""
	}
	r, err := s.repositories.Remote(url)
	if err != nil {
		return url
	}
	return r.BranchKey("")
}

// sessionKey returns the key of a session.
func (s *System) sessionKey(ctx context.Context, id api.SessionID) (string, error) {
	r, err := s.db.Session(ctx, id)
	if api.KindOf(err) == api.KindNotFound {
		return string(id), nil
	}
	return r.Key, err
}

// titles lists the documents that items of plans may be given.
func (s *System) titles(ctx context.Context, account, repository, ref string) (map[string]string, error) {
	all, err := s.documents.Titles(ctx, account, repository, ref)
	out := make(map[string]string, len(all))
	for _, d := range all {
		out[d.Name] = d.Title
	}
	return out, err
}

// lessons opens what tasks learned. An embedding model that is configured must be usable.
func (s *System) lessons() (*lesson.Book, error) {
	cfg := lesson.Config{Rows: s.db, Now: s.db.Now, Similarity: s.cfg.Similarity, Logger: s.log}
	if s.cfg.Embedding != "" {
		e, err := s.models.Embedder(s.cfg.Embedding)
		if err != nil {
			return nil, api.Errorf(api.KindOf(err), "model.embedding: %w", err).WithHint("%s", api.HintOf(err))
		}
		cfg.Embedder = e
	}
	return lesson.New(cfg), nil
}

// openRepositories opens what works on repositories; it returns nil on a machine without git.
func (s *System) openRepositories() (task.Repositories, error) {
	d, err := delivery.New(delivery.Config{Getenv: s.cfg.Getenv, Key: s.secrets.KeyFor, Connected: s.connection, PolicyOf: s.policyOf, KeyOf: s.secrets.KeyOf, Forges: s.cfg.Forges, Policy: s.cfg.Policy, Transport: s.transport})
	if err != nil {
		return nil, err
	}
	s.forges = d
	s.repositories, err = cache.Open(cache.Config{Dir: s.dir.Path("repositories"), Space: s.space.In(s.dir.Path("repositories")), Logger: s.log})
	s.connected = connected.New(connected.Config{Cache: s.repositories, Source: d.SourceOf, Rights: d.Rights, CheckIsolation: s.sandboxes.Backends.Known, Policies: d, Rows: s.db, Owner: s.owner.Owner.ID, Now: s.db.Now, Logger: s.log})
	if err != nil {
		s.log.Info("tasks on repositories are disabled", "reason", err)
		return nil, nil
	}
	prepare := setup.New(setup.Config{Sandboxes: s.taskSandboxes, Toolchain: s.tools().Toolchain, Logger: s.log})
	s.onClose(func(context.Context) error { prepare.Close(); return nil })
	agents := external.New(external.Config{Setup: prepare, Layers: s.taskSandboxes, Secret: s.secrets.Lookup})
	return repo.New(repo.Config{Git: s.repositories, Sandboxes: s.taskSandboxes, Deliverer: d, Setup: prepare, Runtimes: agents, Candidates: s.cfg.Candidates, Sessions: s.sessions.Sandboxes, Archive: s.files(), Kept: s.taskSandboxes, Contents: s.tools().Contents, Now: s.db.Now, Logger: s.log}), nil
}
