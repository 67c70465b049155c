package daemon

import (
	"context"
	"os"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/internal/agent/model/catalogue"
	"hortus.dev/internal/daemon/fleet"
	"hortus.dev/internal/daemon/upkeep"
	"hortus.dev/internal/platform/machine"
	"hortus.dev/internal/platform/version"
	"hortus.dev/internal/repository/dependency"
	"hortus.dev/internal/repository/toolchain"
	"hortus.dev/internal/sandbox/manager"
	"hortus.dev/internal/server/access"
	"hortus.dev/internal/task"
	"hortus.dev/internal/task/delivery"
)

// record implements the Record of task.Config.
func record(path string, models map[string]string) (task.Recording, error) {
	r, err := catalogue.Record(path, models)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// worked lists the sandboxes that worked in a workspace, the newest first.
func (s *System) worked(ctx context.Context, id api.WorkspaceID) ([]api.Sandbox, error) {
	return s.db.SandboxesIn(ctx, id)
}

// status implements access.Daemon: the daemon itself, its bench and its data directory.
type status struct{ system *System }

var _ access.Daemon = status{}

// Info implements access.Daemon.
func (d status) Info(context.Context) (admin.DaemonInfo, error) {
	s := d.system
	if err := s.service.Leaving(); err != nil {
		return admin.DaemonInfo{}, err
	}
	warm, wanted := s.sandboxes.Creator.Warm()
	lease := int64(0)
	if s.hasOthers() {
		lease = fleet.Lease.Milliseconds()
	}
	return admin.DaemonInfo{
		Version: version.Describe(), Owner: s.owner.Owner.ID, Node: s.fleet.Name(), LeaseMS: lease, PID: os.Getpid(), DataDir: string(s.dir),
		Sandboxes: s.sandboxes.Alive(), Tasks: s.tasks.Running(), Warm: warm, WarmWanted: wanted,
		URL: s.address.Load().url, Settings: s.service.Settings(), Models: catalogue.Fingerprint(s.cfg.Getenv),
		Forges: delivery.Fingerprint(s.cfg.Getenv, delivery.TokenVariables(s.cfg.Forges)),
	}, nil
}

// Ready implements access.Daemon.
func (d status) Ready(ctx context.Context) error { return d.system.service.Ready(ctx) }

// Doctor implements access.Daemon: what this host can do, and what it cannot and why.
func (d status) Doctor(ctx context.Context) (admin.Doctor, error) {
	s := d.system
	out := admin.Doctor{
		Version: version.Describe(), Kernel: machine.Kernel(), User: machine.User(), DataDir: string(s.dir), Store: s.storePlace,
		Backends: s.sandboxes.Backends.Reports(ctx), Template: s.host.Report(ctx), Models: s.models.Reports(ctx),
		LayerArchive: s.archive.Report(ctx), Forges: s.forges.Reports(ctx),
	}
	if s.cfg.Embedding != "" {
		out.Models = append(out.Models, s.models.EmbedderReport(ctx, s.cfg.Embedding))
	}
	s.inventory.Fill(ctx, &out.Template)
	b, _, why, err := s.sandboxes.Backends.Choose(ctx, "")
	if err == nil {
		out.Auto, out.AutoWhy = b.Name(), why
	} else if out.AutoWhy = err.Error(); api.HintOf(err) != "" {
		out.AutoWhy += "; " + api.HintOf(err)
	}
	return out, nil
}

// Stop implements access.Daemon.
func (d status) Stop(ctx context.Context, force bool) error { return d.system.service.Stop(ctx, force) }

// StopKeeping implements access.Daemon.
func (d status) StopKeeping(ctx context.Context, force bool) error {
	return d.system.service.StopKeeping(ctx, force)
}

// Configure implements access.Daemon.
func (d status) Configure(ctx context.Context, want admin.DaemonSettings) (admin.DaemonSettings, error) {
	return d.system.service.Configure(ctx, want)
}

// Usage implements access.Daemon.
func (d status) Usage(ctx context.Context) (admin.DiskUsage, error) {
	out, err := d.system.keeper.Usage(ctx)
	if err != nil {
		return out, err
	}
	names, err := d.system.db.Accounts(ctx)
	if err == nil {
		out.Accounts, err = d.system.accountUsage(ctx, names...)
	}
	return out, err
}

// AccountUsage implements access.Daemon.
func (d status) AccountUsage(ctx context.Context, account string) ([]admin.AccountUsage, error) {
	return d.system.accountUsage(ctx, account)
}

// Collect implements access.Daemon.
func (d status) Collect(ctx context.Context, req admin.CollectRequest) (admin.Collected, error) {
	defer d.system.space.Ledger().Remeasure()
	return d.system.keeper.Collect(ctx, req)
}

// newKeeper creates the garbage collector of the data directory.
func (s *System) newKeeper() *upkeep.Keeper {
	return upkeep.New(upkeep.Config{
		Dir: string(s.dir), Layers: s.layers, LayerBytes: s.cfg.LayerBytes, Named: s.templates.Named, Task: s.db.Task, Workspaces: s.workspaces, Snapshots: s.snapshots, Images: s.images, RowsNow: s.db.Now, Logger: s.log,
		Packages: s.packages, Repositories: s.repositories, Connected: s.connected.Kept, Busy: func() bool { return s.tasks.Running() > 0 },
		Orphans: func(ctx context.Context) (out []upkeep.Orphan, err error) {
			all, err := s.sandboxes.Recoverer.Orphans(ctx)
			for _, o := range all {
				out = append(out, upkeep.Orphan{Backend: o.Backend, ID: o.ID, Path: s.dir.Path("run/" + o.Backend + "/" + string(o.ID))})
			}
			return out, err
		},
		Reclaim: func(ctx context.Context, o upkeep.Orphan) error {
			return s.sandboxes.Recoverer.Reclaim(ctx, manager.Orphan{Backend: o.Backend, ID: o.ID})
		},
	})
}

// provided returns the directory of a package that the repository of a task has itself; "" if it has none.
func (s *System) provided(ctx context.Context, t api.Task, l api.Language, name string) string {
	tree, ok := s.treeOf(ctx, t)
	if !ok {
		return ""
	}
	return dependency.Provided(tree, l, name)
}

// needs returns the toolchains that the repository of a task names.
func (s *System) needs(ctx context.Context, t api.Task) toolchain.Needs {
	tree, _ := s.treeOf(ctx, t)
	return toolchain.Read(tree)
}

// treeOf returns the commit that a task began with; ok is false if it has several or none.
func (s *System) treeOf(ctx context.Context, t api.Task) (_ dependency.Tree, ok bool) {
	if s.repositories == nil || t.Create.Repo == nil || len(t.Create.Repo.Also) > 0 || t.Repo == nil || t.Repo.Commit == "" {
		return dependency.Tree{}, false
	}
	r, err := s.repositories.Find(t.Create.Repo.URL)
	if err != nil {
		return dependency.Tree{}, false
	}
	files, err := r.Files(ctx, t.Repo.Commit)
	if err != nil {
		return dependency.Tree{}, false
	}
	tree := dependency.Tree{Read: func(p string) []byte {
		b, err := r.ReadFile(ctx, t.Repo.Commit, p, dependency.MaxFile)
		if err != nil {
			return nil
		}
		return b
	}}
	for _, f := range files {
		tree.Paths = append(tree.Paths, f.Path)
	}
	return tree, true
}
