package world

import (
	"context"
	"flag"
	"io"
	"iter"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/backend/jail/initns"
	wasmguest "hortus.dev/internal/backend/wasm/guest"
	wasmrun "hortus.dev/internal/backend/wasm/run"
	"hortus.dev/internal/daemon"
	"hortus.dev/internal/daemon/datadir"
	"hortus.dev/internal/daemon/launch"
	"hortus.dev/internal/guest"
	"hortus.dev/internal/guest/birth"
	"hortus.dev/internal/guest/interpreter"
	"hortus.dev/internal/store/database"
	"hortus.dev/test/patience"
	"hortus.dev/test/reaper"
	"hortus.dev/test/tools"
)

// Main runs the tests of a package. The test binary is everything that hortus is: the command, the
// guest, the code interpreter, and the first process of sandboxes.
func Main(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case initns.Argv0:
		// As a package may do while it is initialised: the runtime's poller is there before the stage.
		time.AfterFunc(time.Hour, func() {})
		os.Exit(initns.Become(guest.Main)) // as hortus does
	case birth.Argv0:
		os.Exit(guest.Main())
	case interpreter.Argv0:
		os.Exit(interpreter.Main())
	case wasmguest.Argv0:
		os.Exit(wasmguest.Main())
	case wasmrun.Argv0:
		os.Exit(wasmrun.Main())
	case "hortus":
		os.Exit(daemon.Main(os.Args[3:])) // hortus daemon run ...
	}
	os.Exit(reaper.Run(func() int {
		defer func() { os.RemoveAll(seeds.dir) }()
		// Tests wait for timers of models, sessions and grants more than for a processor.
		flag.Parse()
		if err := flag.Set("test.parallel", "4"); err != nil {
			panic(err)
		}
		return m.Run()
	}))
}

// Config says what a daemon is like. Empty fields of the daemon's own configuration are set: its data
// directory is new, nothing is booted ahead, it listens on a free port, and sandboxes have the
// toolchains of this machine.
type Config struct {
	daemon.Config
	// GVisor gives the daemon gVisor. Without its programs the test is skipped.
	GVisor bool
	// NoListener leaves out the TCP listener, as in a daemon that a command started.
	NoListener bool
	// Outside are what sandboxes reach; nil for what the configuration says.
	Outside *Outside
}

// World is a daemon in this process.
type World struct {
	t *testing.T
	daemon.Inside
	// Client is the operator's, over the socket.
	Client *client.Client
	// URL is where it serves over TCP.
	URL string
	// Dir is the data directory.
	Dir datadir.Dir
	// DB is the daemon's database, opened a second time.
	DB *database.DB
	// Config is that of the next start.
	Config daemon.Config

	system *daemon.System
	stop   context.CancelFunc
	served chan error
}

// Open starts a daemon, which ends with the test.
func Open(t *testing.T, cfg Config) *World {
	t.Helper()
	w, err := start(t, cfg)
	if err != nil {
		t.Fatalf("%v (%s)", err, api.HintOf(err))
	}
	return w
}

// Refuses returns the error of a daemon that does not start.
func Refuses(t *testing.T, cfg Config) error {
	t.Helper()
	_, err := start(t, cfg)
	return err
}

func start(t *testing.T, cfg Config) (*World, error) {
	t.Helper()
	c := cfg.Config
	if c.DataDir == "" {
		c.DataDir = NewDir(t)
	}
	if c.Pool == 0 {
		c.Pool = -1
	}
	if c.Idle == 0 {
		c.Idle = -1
	}
	if c.StepTime == 0 {
		c.StepTime = time.Second // what tests leave running does not end by itself
	}
	if c.Path == "" {
		c.Home, c.Path = os.Getenv("HOME"), os.Getenv("PATH")
	}
	if cfg.GVisor {
		c.Runsc = filepath.Join(tools.Dir(t), tools.Runsc)
	}
	if cfg.Outside != nil {
		c.Egress.Resolver, c.Egress.CAFile, c.Egress.Proxy = cfg.Outside, cfg.Outside.roots, cfg.Outside.proxy
	}
	if !cfg.NoListener {
		c.Front.Listen = "127.0.0.1:0"
	}
	w := &World{t: t, Config: c}
	w.Config.Front.Announce = func(url string, _ api.CreatedKey) { w.URL = url }
	seed(t, c, true)
	t.Cleanup(w.Stop)
	return w, w.start()
}

func (w *World) start() (err error) {
	if w.system, err = daemon.Open(w.t.Context(), w.Config); err != nil {
		return err
	}
	w.Inside, w.Dir = w.system.Inside(), datadir.Dir(w.Config.DataDir)
	ctx, stop := context.WithCancel(context.WithoutCancel(w.t.Context()))
	ready := make(chan struct{})
	w.stop, w.served = stop, make(chan error, 1)
	go func() { w.served <- w.system.Serve(ctx, func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-w.served:
		w.served <- err
		return err
	}
	w.Client = client.Unix(w.Socket)
	if url := w.Config.Store.URL; url != "" {
		w.DB, err = database.OpenPostgres(ctx, database.Postgres{URL: url, KeyFile: w.Dir.DatabaseKey()})
	} else {
		w.DB, err = database.OpenSQLite(ctx, database.SQLite{Path: w.Database})
	}
	return err
}

// Signal tells the daemon to end, as a signal does.
func (w *World) Signal() { w.stop() }

// Ended waits until the daemon has ended by itself or after [World.Signal].
func (w *World) Ended() {
	w.t.Helper()
	select {
	case err := <-w.served:
		w.served <- nil
		if err != nil {
			w.t.Error(err)
		}
	case <-time.After(patience.Of(time.Minute)):
		w.t.Error("the daemon does not end")
	}
}

// Serves reports whether the daemon still serves.
func (w *World) Serves() bool { return len(w.served) == 0 }

// Stop ends the daemon in order.
func (w *World) Stop() {
	if w.system == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience.Of(2*time.Minute))
	defer cancel()
	if w.Client != nil {
		w.Client.Close()
	}
	if w.stop != nil {
		w.stop()
		if err := <-w.served; err != nil {
			w.t.Error(err)
		}
	}
	if w.DB != nil {
		w.DB.Close()
	}
	if err := w.system.Close(ctx); err != nil {
		w.t.Errorf("close: %v", err)
	}
	w.system, w.stop, w.Client, w.DB = nil, nil, nil, nil
}

// Restart ends the daemon in order and starts the next one.
func (w *World) Restart() {
	w.t.Helper()
	w.Stop()
	err := w.start()
	for late := time.Now().Add(patience.Of(time.Minute)); api.KindOf(err) == api.KindConflict && time.Now().Before(late); err = w.start() {
		runtime.Gosched() // a process that this one starts has the lock's file until it is another program
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// Key creates an API key.
func (w *World) Key(account string, role api.Role) api.CreatedKey {
	w.t.Helper()
	k, err := w.Client.Keys.Create(w.t.Context(), api.CreateKey{Account: account, Role: role})
	if err != nil {
		w.t.Fatal(err)
	}
	return k
}

// As returns a client with an API key, over TCP.
func (w *World) As(k api.CreatedKey) *client.Client {
	w.t.Helper()
	c, err := client.Remote(w.URL, k.Secret)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(c.Close)
	return c
}

// Isolates skips the test on a host that cannot isolate, or not with that backend.
func (w *World) Isolates(t *testing.T, isolation string) {
	t.Helper()
	Isolates(t, w.Client, isolation)
	keepInventory(t, w.Config)
}

// Isolates is [World.Isolates] for a client.
func Isolates(t *testing.T, c *client.Client, isolation string) {
	t.Helper()
	d, err := c.Doctor(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if d.Auto == "" || isolation == "gvisor" && d.Auto != "gvisor" {
		t.Skipf("this host cannot isolate as needed: %s %s", isolation, d.AutoWhy)
	}
}

// NewDir returns a data directory that does not exist, with a name short enough for its socket.
func NewDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "hw")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return filepath.Join(dir, "d")
}

// Connect returns a client of a directory's daemon, which is started in a process of its own if it does not run, and is
// stopped with the test.
func Connect(t *testing.T, dir string) *client.Client {
	t.Helper()
	if _, err := os.Stat(filepath.Join(dir, "layers")); os.IsNotExist(err) {
		seed(t, daemon.Config{DataDir: dir, Home: os.Getenv("HOME"), Path: os.Getenv("PATH")}, false)
	}
	log := func() string {
		b, _ := os.ReadFile(datadir.Dir(dir).Log())
		return string(b)
	}
	c, err := daemon.Connect(t.Context(), daemon.ConnectOptions{Options: launch.Options{DataDir: dir}})
	if err != nil {
		t.Fatalf("connect: %v (%s)\n%s", err, api.HintOf(err), log())
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience.Of(time.Minute))
		defer cancel()
		_ = c.Stop(ctx, true) // it may have left by itself
		c.Close()
		Eventually(t, "the daemon gives its data directory up", func() bool { return datadir.LockIsFree(datadir.Dir(dir).Lock()) })
		if t.Failed() {
			t.Logf("daemon log:\n%s", log())
		}
	})
	return c
}

// Must returns the first result of a call, and ends the test if there is an error:
//
//	row := world.Must(sandbox.Info(ctx))(t)
func Must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		OK(t, err)
		return v
	}
}

// OK ends the test if there is an error.
func OK(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%v (%s)", err, api.HintOf(err))
	}
}

// All returns everything of a list or a stream that ends.
func All[T any](t testing.TB, seq iter.Seq2[T, error]) (all []T) {
	t.Helper()
	for v, err := range seq {
		OK(t, err)
		all = append(all, v)
	}
	return all
}

// RunTask creates a task and returns it after its end, with its events.
func RunTask(t *testing.T, c *client.Client, req api.CreateTask) (api.Task, []api.Event) {
	t.Helper()
	return Follow(t, c, Must(c.Tasks.Create(t.Context(), req))(t).ID)
}

// Follow returns a task after its end, with its events.
func Follow(t *testing.T, c *client.Client, id api.TaskID) (api.Task, []api.Event) {
	t.Helper()
	events := All(t, c.Tasks.Events(t.Context(), id, 0))
	return Must(c.Tasks.Get(t.Context(), string(id)))(t), events
}

// Eventually waits up to a minute for a condition.
func Eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	Within(t, time.Minute, what, ok)
}

// Within waits for a condition.
func Within(t *testing.T, most time.Duration, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(patience.Of(most))
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline.C:
			t.Fatalf("never happened: %s", what)
		case <-tick.C:
		}
	}
}

// Sh runs a script in a sandbox, and returns all that it printed.
func Sh(t *testing.T, s *client.Sandbox, script string) (string, error) {
	t.Helper()
	out, err := s.Command(t.Context(), "sh", "-c", script).CombinedOutput()
	return string(out), err
}

// Sandbox creates a sandbox that ends with the test. The test is skipped if this host cannot have it.
func Sandbox(t *testing.T, c *client.Client, req api.CreateSandbox) *client.Sandbox {
	t.Helper()
	s, err := c.Sandboxes.Create(t.Context(), req)
	if kind := api.KindOf(err); kind == api.KindUnsupported || kind == api.KindUnisolated {
		t.Skipf("this host cannot run %s: %v", req.Isolation, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = s.Kill(context.Background()) // it may have ended
		s.Close()
	})
	return s
}

// Fork forks a sandbox once; the child ends with the test.
func Fork(t *testing.T, c *client.Client, s *client.Sandbox, req api.ForkSandbox) *client.Sandbox {
	t.Helper()
	out, err := s.Fork(t.Context(), req)
	if err != nil || len(out.Children) != 1 || out.Children[0].Error != nil {
		t.Fatalf("%+v, %v", out, err)
	}
	child, err := c.Sandboxes.Get(t.Context(), string(out.Children[0].Sandbox.ID))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = child.Kill(context.Background())
		child.Close()
	})
	return child
}

// Needs skips the test if a sandbox does not have a program.
func Needs(t *testing.T, s *client.Sandbox, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if out, err := Sh(t, s, "command -v "+p); err != nil {
			t.Skipf("the sandbox has no %s %s", p, out)
		}
	}
}

// Call sends a request with headers over TCP, and returns its status and body. "" is POST.
func (w *World) Call(method, path, body string, headers ...string) (int, string) {
	w.t.Helper()
	if method == "" {
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.URL+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		if req.Header.Add(headers[i], headers[i+1]); headers[i] == "Host" {
			req.Host = headers[i+1]
		}
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		w.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	for name := range resp.Header {
		if strings.HasPrefix(name, "Access-Control-") || name == "Set-Cookie" {
			w.t.Errorf("%s %s: the answer has %s", method, path, name)
		}
	}
	if mime := resp.Header.Get("Content-Type"); resp.StatusCode == http.StatusOK && (mime == "text/event-stream" || mime == "text/plain") {
		return resp.StatusCode, "a stream, which may have no end"
	}
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatalf("%s %s: %v", method, path, err)
	}
	return resp.StatusCode, string(b)
}
