package docker

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail/ids"
	"hortus.dev/internal/backend/jail/initns"
	"hortus.dev/internal/backend/jail/seccomp"
	"hortus.dev/internal/platform/perkey"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/workspace"
)

// Config configures a Backend.
type Config struct {
	// Dir contains one run directory for each running sandbox. It belongs to one daemon.
	Dir string
	// Layers resolves the layers of a Spec.
	Layers *layer.Store
	// Workspaces has the durable workspaces, which are copied into containers.
	Workspaces *workspace.Store
	// Guest is the path of a static executable that is the guest and the stage before it.
	Guest string
	// Host is the address of the engine: unix://PATH, tcp://HOST:PORT or ssh://USER@HOST; empty for that of the system's engine.
	Host string
	// Certificates is the directory with ca.pem, cert.pem and key.pem for an engine behind TCP; empty for one on loopback without TLS.
	Certificates string
	// Runtime is the name of the engine's runtime for sandboxes; empty for the engine's default.
	Runtime string
	// CgroupParent contains the control groups of sandboxes; empty for the engine's default.
	CgroupParent string
	Logger       *slog.Logger
}

// Backend starts guests in containers of a Docker engine.
type Backend struct {
	sandbox.Unsupported
	cfg    Config
	dir    string
	owner  string // the value of labelOwner
	engine *client.Client
	at     address
	// guestDigest is that of the guest, which images for an engine at another host have; empty for one of this machine.
	guestDigest string
	// unusable is why the engine cannot be used, as far as its address says.
	unusable string
	// processors are those that sandboxes may use; turn counts those that got a part of them.
	processors []int
	turn       atomic.Uint64
	filter     []byte
	log        *slog.Logger

	installing sync.Mutex
	installed  bool

	loading perkey.Locks
	mu      sync.Mutex
	loaded  map[string]bool // images that the engine had when they were last used
	report  *api.BackendReport
	groups2 bool // control groups of version 2

	machines sync.WaitGroup
}

// New prepares a backend. It does not speak to the engine.
func New(cfg Config) (*Backend, error) {
	fail := func(err error) (*Backend, error) { return nil, api.Errorf(api.KindInternal, "docker backend: %w", err) }
	if cfg.Dir == "" || cfg.Layers == nil || cfg.Workspaces == nil || cfg.Guest == "" {
		return nil, api.Errorf(api.KindInvalid, "docker backend: Dir, Layers, Workspaces and Guest are required")
	}
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return fail(err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fail(err)
	}
	sum := sha256.Sum256([]byte(dir))
	b := &Backend{cfg: cfg, dir: dir, owner: hex.EncodeToString(sum[:8]), log: cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler)), loaded: map[string]bool{}}
	if b.at, err = parseAddress(cfg.Host, cfg.Certificates); err == nil {
		b.engine, err = client.New(b.at.opts...)
	}
	if err != nil {
		// The address may be that of a variable which is not about this program: the report says so.
		b.unusable = err.Error()
		if b.engine, err = client.New(); err != nil {
			return fail(err)
		}
	}
	if b.at.far {
		if b.guestDigest, err = digestOf(cfg.Guest); err != nil {
			return fail(err)
		}
	}
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return fail(err)
	}
	b.processors = initns.Processors(&set)
	policy, err := seccomp.Default(seccomp.Options{GuestUID: ids.GuestUID, GuestGID: ids.GuestUID})
	if err == nil {
		b.filter, err = policy.Compile()
	}
	if err != nil {
		return fail(err)
	}
	return b, nil
}

// digestOf is the SHA-256 of a file.
func digestOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum, err := digest(f, io.Discard)
	return hex.EncodeToString(sum[:]), err
}

// guestDir is the directory with the guest's executable that containers see.
func (b *Backend) guestDir() string { return filepath.Join(b.dir, "guest") }

// emptyDir is an empty directory, for overlays of one directory.
func (b *Backend) emptyDir() string { return filepath.Join(b.dir, "empty") }

// installGuest copies the guest's executable to where containers see it, once. Running containers keep theirs. A daemon whose disk is full
// starts, so it is not a part of New.
func (b *Backend) installGuest() (err error) {
	b.installing.Lock()
	defer b.installing.Unlock()
	if b.installed || b.at.far {
		return nil
	}
	defer func() { b.installed = err == nil }()
	if strings.ContainsAny(b.dir, separators) {
		return fmt.Errorf("the directory %q has a colon, a comma or a backslash in its name, which Docker cannot mount", b.dir)
	}
	for _, dir := range []string{b.guestDir(), b.emptyDir()} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	from, err := os.Open(b.cfg.Guest)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.CreateTemp(b.guestDir(), "new-")
	if err != nil {
		return err
	}
	defer os.Remove(to.Name()) // fails after the rename
	_, err = io.Copy(to, from)
	if err == nil {
		err = to.Chmod(0o555)
	}
	if cerr := to.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(to.Name(), filepath.Join(b.guestDir(), initns.Argv0))
	}
	return err
}

// Name implements sandbox.Backend.
func (b *Backend) Name() string { return "docker" }

// Capabilities implements sandbox.Backend.
func (b *Backend) Capabilities() sandbox.Capabilities {
	return sandbox.Capabilities{StartTimeout: startTimeout, Prepare: true, Save: !b.at.far, Adopt: true, Engine: true, Copied: true}
}

// Close waits until every machine has ended or was left, which the caller has to cause first.
func (b *Backend) Close() error {
	b.machines.Wait()
	return b.engine.Close()
}

// rundir is the run directory of a sandbox. It contains the socket of the guest, and the directory
// that the container sees while it starts.
func (b *Backend) rundir(id api.SandboxID) string { return filepath.Join(b.dir, string(id)) }

// Validate implements sandbox.Backend.
func (b *Backend) Validate(ctx context.Context, spec sandbox.Spec) error {
	if n := len(spec.Hostname); n == 0 || n > 63 {
		return api.Errorf(api.KindInvalid, "the host name has %d bytes; use 1 to 63", n)
	}
	if spec.Egress != (sandbox.Egress{}) {
		return api.Errorf(api.KindUnsupported, "the docker backend gives no sandbox the network of its host").WithHint("Use the default egress policy.")
	}
	l := spec.Limits
	if l.CPUs < 0 || l.CPUTimeMS < 0 || l.MemoryBytes < 0 || l.Processes < 0 || l.DiskBytes < 0 || l.DiskWriteRate < 0 || l.OutputBytes < 0 {
		return api.Errorf(api.KindInvalid, "a limit is negative")
	}
	if w := spec.Workspace; w != nil {
		if err := w.CheckAccess(); err != nil {
			return err
		}
		if len(w.Access) > 0 {
			return api.Errorf(api.KindUnsupported, "the docker backend cannot make files of a workspace read-only (capability %s)", api.CapWorkspace).
				WithHint("Use --isolation container or gvisor, or a task without a file policy.")
		}
	}
	needs := map[api.Capability]bool{
		api.CapLimitCPU: spec.Asked.CPUs, api.CapLimitCPUTime: spec.Asked.CPUTime, api.CapLimitMemory: spec.Asked.Memory,
		api.CapLimitProcs: spec.Asked.Processes, api.CapLimitDisk: spec.Asked.Disk, api.CapLimitDiskRate: spec.Asked.DiskRate,
		api.CapLimitOutput: spec.Asked.Output, api.CapWorkspace: spec.Workspace != nil,
	}
	for _, c := range api.Capabilities() {
		if !needs[c] {
			continue
		}
		if a, ok := b.Probe(ctx).Has(c); !ok {
			return api.Errorf(api.KindUnsupported, "the docker backend lacks capability %s: %s", c, a.Reason).WithHint("%s", a.Fix)
		}
	}
	return nil
}

var _ sandbox.Backend = (*Backend)(nil)
