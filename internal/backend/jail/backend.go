package jail

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail/cgroup"
	"hortus.dev/internal/backend/jail/forklayer"
	"hortus.dev/internal/backend/jail/ids"
	"hortus.dev/internal/backend/jail/image"
	"hortus.dev/internal/backend/jail/initns"
	"hortus.dev/internal/backend/jail/keeper"
	"hortus.dev/internal/backend/jail/launch"
	"hortus.dev/internal/backend/jail/probe"
	"hortus.dev/internal/backend/jail/workdir"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/space"
	"hortus.dev/internal/storage/workspace"
)

// InitArgv0 is the argv[0] with which a multi-call binary is the stage before the guest; it
// then calls InitMain.
const InitArgv0 = initns.Argv0

// InitMain runs the stage before the guest.
func InitMain() int { return initns.Main() }

// Config configures a Backend.
type Config struct {
	// Name of the isolation in reports and messages: "container", "gvisor".
	Name string
	// Dir contains one run directory for each running sandbox. It belongs to one daemon,
	// is created with mode 0700, and distinguishes the daemon's control groups from
	// those of others.
	Dir string
	// Layers resolves the layers of a Spec.
	Layers *layer.Store
	// Guest is the path of the executable that is both the guest and the stage before it;
	// empty means this program. It is read once.
	Guest string
	// Workspaces keeps durable workspaces; without it the capability is missing.
	Workspaces *workspace.Store
	// Space is the file system of the workspaces; nil means one with the default floor.
	Space *space.Space
	// Kernel runs the guest and its commands; nil is the host's own. Image returns the
	// mark of the memory images that it saves.
	Kernel launch.Kernel
	Image  func() api.ImageMark
	Logger *slog.Logger
}

// Backend starts sandboxes in namespaces. See the package's documentation.
type Backend struct {
	cfg      Config
	dir      string
	cgroups  *cgroup.Host
	ids      *ids.Pool // nil if sandboxes have a single id
	launcher *launch.Launcher
	prober   *probe.Prober
	mounter  *workdir.Mounter
	log      *slog.Logger

	machines sync.WaitGroup
	forks    forklayer.Mounts

	held    held
	thaws   thaws
	thawing sync.Mutex // held while it is decided what is still in use, not while sandboxes learn
}

// New prepares a backend: it copies the guest, compiles the system call policy and looks
// for control groups. It starts nothing and also succeeds on a host that cannot run a
// sandbox, which Probe then reports.
func New(cfg Config) (_ *Backend, err error) {
	if cfg.Dir == "" || cfg.Layers == nil {
		return nil, api.Errorf(api.KindInvalid, "%s backend: Dir and Layers are required", cfg.Name)
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	defer func() {
		if err != nil {
			err = api.Errorf(api.KindInternal, "%s backend: %w", cfg.Name, err)
		}
	}()
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, err
	}
	if err := probe.RemoveLeftovers(dir); err != nil {
		return nil, err
	}
	b := &Backend{cfg: cfg, dir: dir, log: cfg.Logger}
	b.thaws.tell = func(ctx context.Context, m image.Memory, c keeper.Call) error {
		_, err := m.Call(ctx, c)
		return err
	}
	if os.Geteuid() == 0 && ids.Mapped("/proc/self/uid_map") {
		b.ids = ids.NewPool(ids.Dir)
	}
	if b.cgroups, err = cgroup.Detect(cgroup.Options{Name: groupName(dir)}); err != nil {
		return nil, err
	}
	if b.launcher, err = launch.New(launch.Config{
		Ranges: b.Root(), Kernel: cfg.Kernel, Layers: cfg.Layers, Cgroups: b.cgroups, Guest: cfg.Guest,
	}); err != nil {
		return nil, err
	}
	disk := cfg.Space
	if disk == nil && cfg.Workspaces != nil {
		disk = space.New(space.Config{Dir: cfg.Workspaces.Dir()})
	}
	b.mounter = &workdir.Mounter{Layers: cfg.Layers, Spaces: cfg.Workspaces, Space: disk, Log: b.log}
	b.prober = probe.New(probe.Config{Name: cfg.Name, Dir: dir, Launcher: b.launcher, Cgroups: b.cgroups, IDs: b.ids, Spaces: cfg.Workspaces})
	return b, nil
}

// Name is the name of the isolation.
func (b *Backend) Name() string { return b.cfg.Name }

// Root reports whether every sandbox has a range of ids instead of a single one.
func (b *Backend) Root() bool { return b.ids != nil }

// Probe reports what the backend can do on this host. See sandbox.Backend.
func (b *Backend) Probe(ctx context.Context) api.BackendReport { return b.prober.Report(ctx) }

// Close waits until every machine has ended, which the caller has to cause first, and until
// their control groups are removed, at most a minute. Then it releases what the backend
// holds.
func (b *Backend) Close() error {
	b.thaws.stop()
	b.machines.Wait()
	err := b.launcher.Close()
	if b.ids != nil {
		b.ids.Close()
	}
	b.cgroups.Close()
	return err
}

// groupName is the name of the control group of the daemon that uses a run directory.
func groupName(dir string) string {
	h := fnv.New64a()
	h.Write([]byte(dir))
	return fmt.Sprintf("hortus-%d-%016x", os.Geteuid(), h.Sum64())
}

// rundir is the run directory of a sandbox.
func (b *Backend) rundir(id api.SandboxID) string { return filepath.Join(b.dir, string(id)) }

// basesSuffix ends the name of a directory beside the run directory of a sandbox, with the
// files that its memory refers to, or the layers that it has from a fork. The sandbox's processes own the run directory.
const basesSuffix = ".bases"

func (b *Backend) basesDir(id api.SandboxID) string { return b.rundir(id) + basesSuffix }

// removeDirs removes the directories of a sandbox.
func (b *Backend) removeDirs(id api.SandboxID) error {
	return errors.Join(os.RemoveAll(b.rundir(id)), os.RemoveAll(b.basesDir(id)))
}

const (
	// removeTimeout is the maximum wait for dying processes to leave a control group.
	removeTimeout = 5 * time.Second
	// lateRemoveTimeout is the same when no caller waits.
	lateRemoveTimeout = time.Minute
)

// removeGroup removes a control group. If it is still busy after the wait, removal continues in
// the background, and [Backend.Close] waits for it: a killed process may take a while to
// die, and other programs on the host see a group that is left.
func (b *Backend) removeGroup(g *cgroup.Group, wait time.Duration) error {
	err := g.Remove(wait)
	if err != nil {
		b.machines.Go(func() {
			if err := g.Remove(lateRemoveTimeout); err != nil {
				b.log.Error("control group not removed", "err", err)
			}
		})
	}
	return err
}

// require returns an error if a limit or pausing is not supported here.
func (b *Backend) require(c api.Capability) error { return missing(b.prober.Limit(c)) }

// missing is the error of a capability that is not available; nil if it is.
func missing(a api.Ability) error {
	if a.OK {
		return nil
	}
	return api.Errorf(api.KindUnsupported, "capability %s is missing: %s", a.Capability, a.Reason).WithHint("%s", a.Fix)
}

// Capabilities implements sandbox.Backend.
func (b *Backend) Capabilities() sandbox.Capabilities {
	return sandbox.Capabilities{Prepare: true, Save: true, Expect: b.cfg.Kernel != nil, Adopt: true}
}

// Validate refuses an invalid Spec, and one that requires a missing capability. See
// sandbox.Backend.
func (b *Backend) Validate(ctx context.Context, spec sandbox.Spec) error {
	if n := len(spec.Hostname); n == 0 || n > 63 {
		return api.Errorf(api.KindInvalid, "the host name has %d bytes; use 1 to 63", n)
	}
	if spec.Egress != (sandbox.Egress{}) {
		return api.Errorf(api.KindUnsupported, "the %s backend gives no sandbox the network of its host", b.Name()).WithHint("Use the default egress policy.")
	}
	l := spec.Limits
	if l.CPUs < 0 || l.CPUTimeMS < 0 || l.MemoryBytes < 0 || l.Processes < 0 || l.DiskWriteRate < 0 || l.OutputBytes < 0 {
		return api.Errorf(api.KindInvalid, "a limit is negative")
	}
	if l.DiskBytes < 1<<20 {
		return api.Errorf(api.KindInvalid, "the disk has %d bytes, the minimum is 1 MiB", l.DiskBytes)
	}
	for _, a := range []struct {
		asked bool
		cap   api.Capability
	}{
		{spec.Asked.CPUs, api.CapLimitCPU}, {spec.Asked.CPUTime, api.CapLimitCPUTime}, {spec.Asked.Memory, api.CapLimitMemory},
		{spec.Asked.Processes, api.CapLimitProcs}, {spec.Asked.Disk, api.CapLimitDisk}, {spec.Asked.DiskRate, api.CapLimitDiskRate},
		{spec.Asked.Output, api.CapLimitOutput},
	} {
		if a.asked {
			if err := b.require(a.cap); err != nil {
				return err
			}
		}
	}
	if w := spec.Workspace; w != nil {
		if n := len(w.Layers); n == 0 || n > workspace.MaxLayers {
			return api.Errorf(api.KindInvalid, "the workspace has %d layers, allowed are 1 to %d", n, workspace.MaxLayers)
		}
		if err := w.CheckAccess(); err != nil {
			return err
		}
		if a, ok := b.Probe(ctx).Has(api.CapWorkspace); !ok {
			return missing(a)
		}
	}
	return nil
}
