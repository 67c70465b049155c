package guest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"sync"

	"golang.org/x/sys/unix"

	"hortus.dev/api/envd"
	"hortus.dev/internal/backend/wasm/memfs"
	"hortus.dev/internal/backend/wasm/run"
	"hortus.dev/internal/guest/birth"
	"hortus.dev/internal/guest/exec"
	"hortus.dev/internal/guest/identity"
	"hortus.dev/internal/guest/outbound"
	"hortus.dev/internal/guest/process"
	"hortus.dev/internal/guest/rpc"
	"hortus.dev/internal/guest/signals"
)

// Argv0 is the name by which the program knows that it is this guest.
const Argv0 = "hortus-wasm-guest"

// Settings configure the guest besides its birth.Config. They are its only argument, as JSON.
type Settings struct {
	// Cache and OwnCache are directories of compiled modules; see run.Setup.
	Cache, OwnCache string
	// Python is the path of the Python interpreter's module, which need not exist.
	Python string
	// Disk is the maximum size of the sandbox's files, Memory that of files and modules
	// together, in bytes. Processes is the maximum number of commands that run.
	Disk, Memory, Processes int64
}

// overhead is what the guest may allocate besides the files of the sandbox, in bytes: the output
// of commands, and the Go runtime.
const overhead = 512 << 20

// Main runs the guest and returns its exit code. It returns if it cannot start, or when serving
// fails.
func Main() int {
	control, err := birth.NewControl(os.NewFile(birth.ControlFD, "control"))
	if err == nil {
		err = serve(context.Background(), control)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "hortus-wasm-guest:", err)
		return 1
	}
	return 0
}

func serve(ctx context.Context, control *birth.Control) error {
	defer control.Close()
	cfg, err := control.AwaitConfig(ctx)
	if err != nil {
		return fmt.Errorf("receive configuration: %w", err)
	}
	g, l, err := prepare(cfg)
	if err != nil {
		return errors.Join(err, control.Answer(ctx, birth.Report{Stage: "start", Error: err.Error()}))
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go g.processes.Reap()
	g.programs.Ahead()
	served := make(chan error, 1)
	go func() { served <- g.rpc.Serve(ctx, l) }()
	err = control.Answer(ctx, birth.Report{Ready: true})
	var claim *birth.Claim
	if err == nil {
		claim, err = control.AwaitGo(ctx)
	}
	if err != nil {
		return fmt.Errorf("wait for the start order: %w", err)
	}
	g.claim(claim)
	control.Close()
	return <-served
}

// prepare prepares the process and makes the guest.
func prepare(cfg birth.Config) (*Guest, net.Listener, error) {
	debug.SetGCPercent(50)
	var settings Settings
	if len(os.Args) != 2 {
		return nil, nil, errors.New("this program is started by hortus and cannot be started by hand")
	}
	if err := json.Unmarshal([]byte(os.Args[1]), &settings); err != nil {
		return nil, nil, err
	}
	f := os.NewFile(birth.ListenFD, "listener")
	l, err := net.FileListener(f)
	f.Close()
	if err != nil {
		return nil, nil, err
	}
	if u, ok := l.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false) // the host owns the path
	}
	if err := signals.IgnoreLibrary(); err != nil {
		return nil, nil, err
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, nil, err
	}
	for resource, max := range map[int]uint64{unix.RLIMIT_CORE: 1, unix.RLIMIT_DATA: uint64(settings.Memory) + overhead} {
		if err := unix.Setrlimit(resource, &unix.Rlimit{Cur: max, Max: max}); err != nil {
			return nil, nil, os.NewSyscallError("setrlimit", err)
		}
	}
	g, err := New(cfg, settings)
	return g, l, err
}

// Guest is the guest of a sandbox.
type Guest struct {
	cfg       birth.Config
	ids       *identity.Set
	tree      *memfs.Tree
	programs  *Programs
	processes *process.Manager
	rpc       *rpc.Server
	claimed   chan struct{}
	once      sync.Once
}

// New returns a guest that is not serving yet.
func New(cfg birth.Config, settings Settings) (*Guest, error) {
	g := &Guest{cfg: cfg, claimed: make(chan struct{})}
	var err error
	if g.ids, err = identity.NewSet(&g.cfg); err != nil {
		return nil, err
	}
	memory := memfs.NewBudget(settings.Memory)
	g.tree = memfs.New(memfs.Config{Disk: settings.Disk, Memory: memory})
	for _, dir := range append(run.Top, cfg.Identities[0].Home[1:]) {
		if errno := g.tree.MkdirAll("/" + dir); errno != 0 {
			return nil, errno
		}
	}
	if errno := g.tree.WriteFile(pythonDir+"/numpy.py", []byte(noNumPy), 0o444); errno != 0 {
		return nil, errno
	}
	g.programs = NewPrograms(ProgramsConfig{Settings: settings, Tree: g.tree, Memory: memory})
	if g.processes, err = process.NewManager(&g.cfg, g.programs); err != nil {
		return nil, err
	}
	handlers := map[string]rpc.Handler{
		envd.PathHealth: health, envd.PathEnvs: g.envs, envd.PathMetrics: g.metrics, envd.PathPort: (&Code{ids: g.ids, tree: g.tree, processes: g.processes}).Serve,
	}
	maps.Copy(handlers, outbound.New().Handlers())
	maps.Copy(handlers, exec.New(g.ids, g.processes, cfg.Waits).Handlers())
	maps.Copy(handlers, (&Files{ids: g.ids, tree: g.tree}).Handlers())
	g.rpc = rpc.NewServer(rpc.Config{Handlers: handlers, Await: g.awaitClaim})
	return g, nil
}

// claim releases the waiting requests, and sets the environment of a guest that was started ahead.
func (g *Guest) claim(c *birth.Claim) {
	if c != nil {
		g.ids.SetEnv(c.Env)
	}
	close(g.claimed)
}

// awaitClaim blocks a request until the guest is claimed. It does not block warm-ups.
func (g *Guest) awaitClaim(done <-chan struct{}, c *rpc.Conn, req *http.Request) bool {
	if !g.cfg.Waits || req.Header.Get(envd.HeaderWarmUp) != "" {
		return true
	}
	select {
	case <-g.claimed:
		return true
	case <-done:
		return false
	case <-c.Ended():
		return false
	}
}

func health(c *rpc.Conn, req *http.Request) error {
	if ok, err := c.RequireMethod(req, http.MethodGet); !ok {
		return err
	}
	return c.Answer(http.StatusNoContent, "", nil)
}

func (g *Guest) envs(c *rpc.Conn, req *http.Request) error {
	if ok, err := c.RequireMethod(req, http.MethodGet); !ok {
		return err
	}
	return c.AnswerJSON(g.ids.Default().Environment().Map)
}
