package jail

import (
	"fmt"
	"hash/fnv"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail/cgroup"
	"hortus.dev/internal/backend/jail/forker"
	"hortus.dev/internal/backend/jail/initns"
	"hortus.dev/internal/backend/jail/seccomp"
	"hortus.dev/internal/guest/birth"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/workspace"
)

// InitArgv0 is the argument zero by which a multi-call binary knows that it is to
// be the stage before the guest; it then calls initns.Main.
const InitArgv0 = initns.Argv0

// Config says what a Backend works with.
type Config struct {
	// Name is the isolation's, in reports and messages: "container", "gvisor".
	Name string
	// Dir gets one directory for each running sandbox. It belongs to one
	// daemon, is made with mode 0700, and tells its owner's control groups
	// from those of others.
	Dir string
	// Layers resolves what a Spec names.
	Layers *layer.Store
	// Guest is the path of the executable that is both the guest and the stage
	// before it; empty means this program. It is read once.
	Guest string
	// Workspaces keeps what a Spec's Workspace names; nil takes the capability
	// away.
	Workspaces *workspace.Store
	// DiskFloor is what workspaces leave free of the host's disk, in bytes; 0 means
	// a twentieth of it, at most 1 GiB.
	DiskFloor int64
	// Kernel is what the guest and its commands run on; nil is the host's own. Image
	// gives the mark of what it saves.
	Kernel Kernel
	Image  func() api.ImageMark
	Logger *slog.Logger
}

// Backend starts sandboxes in namespaces. See the package's documentation.
type Backend struct {
	cfg     Config
	dir     string
	root    bool // this process may map many ids
	clocks  bool // there are time namespaces
	filter  []byte
	cgroups *cgroup.Host
	ids     *leases
	guest   *os.File // sealed copy of the guest
	forker  *forker.Forker
	null    *os.File
	log     *slog.Logger

	mu     sync.Mutex
	trees  map[layer.Digest]*prepared
	report *api.BackendReport

	machines sync.WaitGroup
}

// New prepares a backend: it copies the guest, compiles the system call policy
// and looks for control groups. It starts nothing and succeeds also on a host
// that cannot run a sandbox, which Probe then says.
func New(cfg Config) (*Backend, error) {
	if cfg.Dir == "" || cfg.Layers == nil {
		return nil, api.Errorf(api.KindInvalid, "%s backend: Dir and Layers are needed", cfg.Name)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return nil, api.Errorf(api.KindInvalid, "%s backend: %w", cfg.Name, err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, api.Errorf(api.KindInternal, "%s backend: %w", cfg.Name, err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, api.Errorf(api.KindInternal, "%s backend: %w", cfg.Name, err)
	}
	if err := removeProbes(dir); err != nil {
		return nil, api.Errorf(api.KindInternal, "%s backend: %w", cfg.Name, err)
	}
	b := &Backend{cfg: cfg, dir: dir, root: os.Geteuid() == 0 && rangesMapped("/proc/self/uid_map"), log: cfg.Logger,
		trees: map[layer.Digest]*prepared{}}
	b.clocks = b.haveClocks()
	opts := seccomp.Options{GuestUID: -1, GuestGID: -1}
	if b.root {
		opts = seccomp.Options{GuestUID: guestUID, GuestGID: guestUID}
		b.ids = newLeases(leaseDir)
	}
	policy, err := seccomp.Default(opts)
	if err == nil {
		b.filter, err = policy.Compile()
	}
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "%s backend: %w", cfg.Name, err)
	}
	if b.cgroups, err = cgroup.Detect(cgroup.Options{Name: groupName(dir)}); err != nil {
		return nil, api.Errorf(api.KindInternal, "%s backend: %w", cfg.Name, err)
	}
	if b.null, err = os.OpenFile(os.DevNull, os.O_RDWR, 0); err != nil {
		return nil, api.Errorf(api.KindInternal, "%s backend: %w", cfg.Name, err)
	}
	if b.guest, err = sealed(cfg.Guest); err != nil {
		b.null.Close()
		return nil, api.Errorf(api.KindInternal, "%s backend: the guest's executable: %w", cfg.Name, err)
	}
	b.forker = forker.New(forker.Config{Program: b.guest, Argv0: initns.Argv0, Null: b.null, Shared: os.Geteuid() != 0})
	return b, nil
}

// Name is the isolation's.
func (b *Backend) Name() string { return b.cfg.Name }

// Root says whether sandboxes have ranges of ids, not a single one.
func (b *Backend) Root() bool { return b.root }

// Close waits until every machine has ended, which the caller has to bring about
// first, and until no group of one is busy any more, a minute at most; then it frees
// what the backend holds.
func (b *Backend) Close() error {
	b.machines.Wait()
	b.forker.Close()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.trees {
		p.close()
	}
	b.trees = map[layer.Digest]*prepared{}
	if b.ids != nil {
		b.ids.close()
	}
	b.cgroups.Close()
	b.null.Close()
	return b.guest.Close()
}

// groupName tells the control groups of one run directory from another's.
func groupName(dir string) string {
	h := fnv.New64a()
	h.Write([]byte(dir))
	return fmt.Sprintf("hortus-%d-%016x", os.Geteuid(), h.Sum64())
}

// sealed copies an executable into memory that nobody can change, so that
// neither an upgrade of the file nor a sandbox can change what runs.
//
// Its mode has no read bit: the kernel makes a process that runs what it may not
// read undumpable, so that nothing of its own uid can trace it or read its memory.
func sealed(path string) (*os.File, error) {
	if path == "" {
		path = "/proc/self/exe"
	}
	src, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	const mfdExec = 0x10 // since Linux 6.3, which wants to be told
	flags := unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate("hortus-guest", flags|mfdExec)
	if err == unix.EINVAL {
		fd, err = unix.MemfdCreate("hortus-guest", flags)
	}
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "hortus-guest")
	if _, err := f.ReadFrom(src); err != nil {
		f.Close()
		return nil, err
	}
	if err := f.Chmod(0o111); err != nil {
		f.Close()
		return nil, err
	}
	if err := birth.Seal(f); err != nil {
		f.Close()
		return nil, err
	}
	// Opened again for execution: a descriptor that can write keeps the kernel
	// from running the file.
	ro, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_PATH|unix.O_CLOEXEC, 0)
	f.Close()
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(ro), "hortus-guest"), nil
}
