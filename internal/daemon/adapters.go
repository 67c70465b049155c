package daemon

import (
	"cmp"
	"context"
	"os"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/internal/agent"
	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/agent/model/catalogue"
	"hortus.dev/internal/door/access"
	"hortus.dev/internal/platform/machine"
	"hortus.dev/internal/platform/telemetry"
	"hortus.dev/internal/platform/version"
	"hortus.dev/internal/sandbox/manager"
	"hortus.dev/internal/storage/upkeep"
	"hortus.dev/internal/store/event"
	"hortus.dev/internal/store/lists"
	"hortus.dev/internal/task"
	"hortus.dev/internal/task/delivery"
	"hortus.dev/internal/task/tally"
)

// facts is the log of events, counted by the metrics.
type facts struct {
	*event.Log
	metrics *telemetry.Telemetry
}

// Append implements sandbox.Log and task.Log.
func (f facts) Append(ctx context.Context, s api.Stream, t api.EventType, data any) (api.Event, error) {
	e, err := f.Log.Append(ctx, s, t, data)
	if err == nil {
		f.metrics.Event(t)
		if tier, ok := data.(api.TierEvent); ok {
			f.metrics.Tier(tier)
		}
	}
	return e, err
}

// appended takes an event that was stored with something else.
func (f facts) appended(e api.Event) {
	f.Wake(e.Stream, e.Seq)
	f.metrics.Event(e.Type)
}

// engine implements access.Engine over the engine of tasks and the lists of the store.
type engine struct {
	*task.Engine
	rows lists.Lists
}

var _ access.Engine = engine{}

// Get implements access.Engine.
func (e engine) Get(ctx context.Context, id api.TaskID) (api.Task, error) {
	return e.rows.Task(ctx, id)
}

// Page implements access.Engine.
func (e engine) Page(ctx context.Context, account string, programs bool, p api.PageRequest) ([]api.Task, string, error) {
	return e.rows.TaskPage(ctx, account, programs, p)
}

// Find implements access.Engine.
func (e engine) Find(ctx context.Context, account, prefix string) (api.TaskID, error) {
	return e.rows.FindTaskOf(ctx, account, prefix)
}

// Stats implements access.Engine.
func (e engine) Stats(ctx context.Context, account string, since time.Time) (admin.TaskStats, error) {
	return tally.Rows{Store: e.rows.Store}.TaskStats(ctx, account, since)
}

// record implements the Record of task.Config.
func record(path string, models map[string]string) (task.Recording, error) {
	r, err := catalogue.Record(path, models)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// roles implements the door's Roles: each role of the pipeline alone, without a task.
type roles struct{ models *catalogue.Catalogue }

// noEvents implements agent.Emitter for a role without a task.
type noEvents struct{}

// Emit implements agent.Emitter.
func (noEvents) Emit(context.Context, api.EventType, any) {}

// model returns a model by name; "" is the default one.
func (r roles) model(name string) (model.Model, error) {
	return r.models.Open(cmp.Or(name, task.DefaultModel))
}

// Plan implements the door's Roles.
func (r roles) Plan(ctx context.Context, name string, req api.PlanRequest) (api.ExecutionPlan, error) {
	m, err := r.model(name)
	if err != nil {
		return api.ExecutionPlan{}, err
	}
	plan, _, err := agent.NewPlanner(m, noEvents{}).Plan(ctx, req)
	return plan, err
}

// Code implements the door's Roles.
func (r roles) Code(ctx context.Context, name string, plan api.ExecutionPlan) (api.CodeArtifact, error) {
	m, err := r.model(name)
	if err != nil {
		return api.CodeArtifact{}, err
	}
	a, _, err := agent.NewCoder(m, noEvents{}, api.DefaultInstallTimeout, api.DefaultRunTimeout).Code(ctx, plan)
	return a, err
}

// Debug implements the door's Roles.
func (r roles) Debug(ctx context.Context, name string, req api.DebugRequest) (api.Diagnosis, error) {
	m, err := r.model(name)
	if err != nil {
		return api.Diagnosis{}, err
	}
	d, _, err := agent.NewDebugger(m, noEvents{}, api.DefaultInstallTimeout, api.DefaultRunTimeout).Diagnose(ctx, req)
	return d, err
}

// status implements access.Daemon: the daemon itself, its bench and its data directory.
type status struct{ *System }

var _ access.Daemon = status{}

// Info implements access.Daemon.
func (s status) Info(context.Context) (admin.DaemonInfo, error) {
	if err := s.service.Leaving(); err != nil {
		return admin.DaemonInfo{}, err
	}
	warm, wanted := s.sandboxes.Warm()
	return admin.DaemonInfo{
		Version: version.Describe(), Owner: s.owner.Owner.ID, PID: os.Getpid(), DataDir: string(s.dir),
		Sandboxes: s.sandboxes.Alive(), Tasks: s.tasks.Running(), Warm: warm, WarmWanted: wanted,
		URL: s.url, Settings: s.service.Settings(), Models: catalogue.Fingerprint(s.cfg.Getenv),
		Forges: delivery.Fingerprint(s.cfg.Getenv, delivery.TokenVariables(s.cfg.Forges)),
	}, nil
}

// Ready implements access.Daemon.
func (s status) Ready(ctx context.Context) error { return s.service.Ready(ctx) }

// Doctor implements access.Daemon: what this host can do, and what it cannot and why.
func (s status) Doctor(ctx context.Context) (admin.Doctor, error) {
	d := admin.Doctor{
		Version: version.Describe(), Kernel: machine.Kernel(), User: machine.User(), DataDir: string(s.dir),
		Backends: s.sandboxes.Reports(ctx), Template: s.host.Report(ctx), Models: s.models.Reports(ctx),
		LayerArchive: s.archive.Report(ctx), Forges: s.forges.Reports(ctx),
	}
	s.inventory.Fill(ctx, &d.Template)
	b, _, why, err := s.sandboxes.Choose(ctx, "")
	if err == nil {
		d.Auto, d.AutoWhy = b.Name(), why
	} else if d.AutoWhy = err.Error(); api.HintOf(err) != "" {
		d.AutoWhy += "; " + api.HintOf(err)
	}
	return d, nil
}

// Bench implements access.Daemon.
func (s status) Bench(ctx context.Context, req admin.BenchRequest, report func(admin.BenchRow), progress func(admin.BenchProgress)) error {
	return s.bench.Run(ctx, req, report, progress)
}

// Stop implements access.Daemon.
func (s status) Stop(ctx context.Context, force bool) error { return s.service.Stop(ctx, force) }

// StopKeeping implements access.Daemon.
func (s status) StopKeeping(ctx context.Context, force bool) error {
	return s.service.StopKeeping(ctx, force)
}

// Configure implements access.Daemon.
func (s status) Configure(ctx context.Context, want admin.DaemonSettings) (admin.DaemonSettings, error) {
	return s.service.Configure(ctx, want)
}

// Usage implements access.Daemon.
func (s status) Usage(ctx context.Context) (admin.DiskUsage, error) { return s.keeper.Usage(ctx) }

// Collect implements access.Daemon.
func (s status) Collect(ctx context.Context, req admin.CollectRequest) (admin.Collected, error) {
	return s.keeper.Collect(ctx, req)
}

// newKeeper creates the garbage collector of the data directory.
func (s *System) newKeeper() *upkeep.Keeper {
	return upkeep.New(upkeep.Config{
		Dir: string(s.dir), Layers: s.layers, LayerBytes: s.cfg.LayerBytes, Named: s.templates.Named, Task: s.db.Task, Workspaces: s.workspaces, Snapshots: s.snapshots, Images: s.images, Logger: s.log,
		Packages: s.packages, Repositories: s.repositories, Connected: s.connected.Kept, Busy: func() bool { return s.tasks.Running() > 0 },
		Orphans: func(ctx context.Context) (out []upkeep.Orphan, err error) {
			all, err := s.sandboxes.Orphans(ctx)
			for _, o := range all {
				out = append(out, upkeep.Orphan{Backend: o.Backend, ID: o.ID, Path: s.dir.Path("run/" + o.Backend + "/" + string(o.ID))})
			}
			return out, err
		},
		Reclaim: func(ctx context.Context, o upkeep.Orphan) error {
			return s.sandboxes.Reclaim(ctx, manager.Orphan{Backend: o.Backend, ID: o.ID})
		},
	})
}
