package microvm

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
	"hortus.dev/internal/backend/jail/ids"
	"hortus.dev/internal/platform/perkey"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/space"
)

// Config configures a Backend.
type Config struct {
	// Dir contains one run directory for each running sandbox. It belongs to one daemon.
	Dir string
	// Images contains the disks that were made of layers which the store keeps as directories, and the initial file system.
	Images string
	// Space is the file system of Images; nil means one without a floor.
	Space *space.Space
	// Layers resolves the layers of a Spec.
	Layers *layer.Store
	// Kernel is the directory of package kernel.
	Kernel string
	// Guest is the path of a static executable that is the guest, and the first process of a machine.
	Guest string
	// Missing says why Guest cannot be the first process of a machine; zero if it can.
	Missing api.Ability
	// QEMU is the path of qemu-system-x86_64; empty for that of PATH.
	QEMU string
	// Emulate allows machines without KVM, which QEMU emulates.
	Emulate bool
	// ProbeTimeout is the maximum time of the boot that proves KVM (default 10 s).
	ProbeTimeout time.Duration
	Logger       *slog.Logger
}

// Backend starts guests in virtual machines.
type Backend struct {
	sandbox.Unsupported
	cfg     Config
	dir     string
	kvm     string // the device; another one in tests
	log     *slog.Logger
	ids     *ids.Pool // nil if machines run as the user of this process
	cgroups *cgroup.Host

	making perkey.Locks // of images, of the initial file system and of the report
	mu     sync.Mutex
	report *api.BackendReport
	host   *host // what Probe proved

	machines sync.WaitGroup
}

var _ sandbox.Backend = (*Backend)(nil)

// New prepares a backend. It starts nothing, and succeeds also on a host that cannot run a machine, which Probe then says.
func New(cfg Config) (*Backend, error) {
	fail := func(err error) (*Backend, error) {
		return nil, api.Errorf(api.KindInternal, "microvm backend: %w", err)
	}
	if cfg.Dir == "" || cfg.Images == "" || cfg.Layers == nil || cfg.Kernel == "" || cfg.Guest == "" {
		return nil, api.Errorf(api.KindInvalid, "microvm backend: Dir, Images, Layers, Kernel and Guest are required")
	}
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return fail(err)
	}
	for _, d := range []string{dir, cfg.Images} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return fail(err)
		}
	}
	// What a daemon that ended left half-made.
	for _, pattern := range []string{filepath.Join(dir, trialPrefix+"*"), filepath.Join(cfg.Images, "new-*")} {
		left, err := filepath.Glob(pattern)
		for _, path := range left {
			err = errors.Join(err, os.RemoveAll(path))
		}
		if err != nil {
			return fail(err)
		}
	}
	cfg.ProbeTimeout = cmp.Or(cfg.ProbeTimeout, 10*time.Second)
	b := &Backend{cfg: cfg, dir: dir, kvm: kvmDevice, log: cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))}
	if os.Geteuid() == 0 && ids.Mapped("/proc/self/uid_map") {
		b.ids = ids.NewPool(ids.Dir)
	}
	h := fnv.New64a()
	h.Write([]byte(dir))
	if b.cgroups, err = cgroup.Detect(cgroup.Options{Name: fmt.Sprintf("hortus-vm-%d-%016x", os.Geteuid(), h.Sum64())}); err != nil {
		return fail(err)
	}
	return b, nil
}

// Name implements sandbox.Backend.
func (b *Backend) Name() string { return "microvm" }

// startTimeout is the maximum duration of a start. It includes making images of layers.
const startTimeout = 10 * time.Minute

// Capabilities implements sandbox.Backend.
func (b *Backend) Capabilities() sandbox.Capabilities {
	return sandbox.Capabilities{StartTimeout: startTimeout, Prepare: true, Save: true, Adopt: true, Engine: true}
}

// Close waits until every machine has ended or was left, which the caller has to cause first.
func (b *Backend) Close() error {
	b.machines.Wait()
	if b.ids != nil {
		b.ids.Close()
	}
	b.cgroups.Close()
	return nil
}

// rundir is the run directory of a sandbox.
func (b *Backend) rundir(id api.SandboxID) string { return filepath.Join(b.dir, string(id)) }

// Validate implements sandbox.Backend.
func (b *Backend) Validate(ctx context.Context, spec sandbox.Spec) error {
	if n := len(spec.Hostname); n == 0 || n > 63 {
		return api.Errorf(api.KindInvalid, "the host name has %d bytes; use 1 to 63", n)
	}
	if spec.Egress != (sandbox.Egress{}) {
		return api.Errorf(api.KindUnsupported, "the microvm backend gives no sandbox the network of its host").WithHint("Use the default egress policy.")
	}
	l := spec.Limits
	if l.CPUs < 0 || l.CPUTimeMS < 0 || l.MemoryBytes < 0 || l.Processes < 0 || l.DiskBytes < 0 || l.DiskWriteRate < 0 || l.OutputBytes < 0 {
		return api.Errorf(api.KindInvalid, "a limit is negative")
	}
	if l.MemoryBytes == 0 || l.DiskBytes == 0 {
		return api.Errorf(api.KindUnsupported, "a virtual machine needs a limit of memory and of disk").WithHint("Set --memory and --disk.")
	}
	needs := map[api.Capability]bool{
		api.CapLimitCPU: spec.Asked.CPUs, api.CapLimitCPUTime: spec.Asked.CPUTime, api.CapLimitMemory: spec.Asked.Memory,
		api.CapLimitProcs: spec.Asked.Processes, api.CapLimitDisk: spec.Asked.Disk, api.CapLimitDiskRate: spec.Asked.DiskRate,
		api.CapLimitOutput: spec.Asked.Output, api.CapWorkspace: spec.Workspace != nil,
	}
	r := b.Probe(ctx)
	for _, c := range api.Capabilities() {
		if !needs[c] {
			continue
		}
		if a, ok := r.Has(c); !ok {
			return api.Errorf(api.KindUnsupported, "the microvm backend lacks capability %s: %s", c, a.Reason).WithHint("%s", a.Fix)
		}
	}
	return nil
}
