package launch

import (
	"cmp"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/backend/jail/cgroup"
	"hortus.dev/internal/backend/jail/forker"
	"hortus.dev/internal/backend/jail/ids"
	"hortus.dev/internal/backend/jail/initns"
	"hortus.dev/internal/backend/jail/seccomp"
	"hortus.dev/internal/guest/birth"
	"hortus.dev/internal/storage/layer"
)

// Config configures a Launcher.
type Config struct {
	// Ranges is true if every sandbox has a range of ids; otherwise it has a single id.
	Ranges  bool
	Kernel  Kernel // nil for the host's kernel
	Layers  *layer.Store
	Cgroups *cgroup.Host
	// Guest is the path of the executable that is both the stage and the guest; empty
	// means this program. It is read once.
	Guest string
}

// Launcher makes first processes.
type Launcher struct {
	cfg    Config
	clocks bool // sandboxes have time namespaces
	filter []byte
	guest  *os.File // sealed copy of the guest
	null   *os.File
	forker *forker.Forker
	// processors are those that sandboxes may use; turn counts those that got a part of them.
	processors []int
	turn       atomic.Uint64

	mu    sync.Mutex
	trees map[layer.Digest]*Tree
}

// New makes a sealed copy of the guest and compiles the system call policy. It starts no
// process.
func New(cfg Config) (_ *Launcher, err error) {
	l := &Launcher{cfg: cfg, trees: map[layer.Digest]*Tree{}}
	l.clocks = l.haveClocks()
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("the processors of this process: %w", err)
	}
	l.processors = initns.Processors(&set)
	opts := seccomp.Options{GuestUID: -1, GuestGID: -1}
	if cfg.Ranges {
		opts = seccomp.Options{GuestUID: ids.GuestUID, GuestGID: ids.GuestUID}
	}
	policy, err := seccomp.Default(opts)
	if err == nil {
		l.filter, err = policy.Compile()
	}
	if err != nil {
		return nil, err
	}
	if l.null, err = os.OpenFile(os.DevNull, os.O_RDWR, 0); err != nil {
		return nil, err
	}
	if l.guest, err = sealed(cfg.Guest); err != nil {
		l.null.Close()
		return nil, fmt.Errorf("the guest's executable: %w", err)
	}
	l.forker = forker.New(forker.Config{Program: l.guest, Argv0: initns.Argv0, Null: l.null, Shared: os.Geteuid() != 0})
	return l, nil
}

// Ranges reports whether every sandbox has a range of ids.
func (l *Launcher) Ranges() bool { return l.cfg.Ranges }

// Clocks reports whether sandboxes have clocks of their own.
func (l *Launcher) Clocks() bool { return l.clocks }

// Kernel is the kernel of the guests; nil is the host's.
func (l *Launcher) Kernel() Kernel { return l.cfg.Kernel }

// Close ends the forker and releases the layers. No sandbox may be left.
func (l *Launcher) Close() error {
	l.forker.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range l.trees {
		t.lease.Release()
	}
	l.trees = map[layer.Digest]*Tree{}
	l.null.Close()
	return l.guest.Close()
}

// sealed copies an executable into sealed memory: neither an upgrade of the file nor a
// sandbox can change what runs.
//
// Its mode has no read bit: the kernel makes a process that runs an unreadable file
// undumpable, so that no process of the same uid can trace it or read its memory.
func sealed(path string) (*os.File, error) {
	path = cmp.Or(path, "/proc/self/exe")
	src, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	const mfdExec = 0x10 // required since Linux 6.3, unknown before
	flags := unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate("hortus-guest", flags|mfdExec)
	if err == unix.EINVAL {
		fd, err = unix.MemfdCreate("hortus-guest", flags)
	}
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "hortus-guest")
	defer f.Close()
	if _, err := f.ReadFrom(src); err != nil {
		return nil, err
	}
	if err := f.Chmod(0o111); err != nil {
		return nil, err
	}
	if err := birth.Seal(f); err != nil {
		return nil, err
	}
	// Opened again for execution: the kernel does not run a file that is open for
	// writing.
	ro, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(ro), "hortus-guest"), nil
}
