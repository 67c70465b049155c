package attack

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/backend/container"
	"hortus.dev/internal/backend/docker"
	"hortus.dev/internal/backend/gvisor"
	"hortus.dev/internal/backend/jail"
	"hortus.dev/internal/backend/microvm"
	"hortus.dev/internal/backend/wasm"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/manager"
	httpapi "hortus.dev/internal/server/http"
	"hortus.dev/internal/storage/image"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/workspace"
	"hortus.dev/internal/store"
	"hortus.dev/internal/store/database"
	"hortus.dev/internal/store/event"
	"hortus.dev/test/microvmtest"
	wait "hortus.dev/test/patience"
	"hortus.dev/test/tier"
	"hortus.dev/test/tools"
)

// patience bounds every wait in this package. It is no measure of anything: what
// takes that long does not end.
var patience = wait.Of(60 * time.Second)

// world is the system as the daemon wires it, over the container backend, with
// its server on a unix socket.
type world struct {
	*manager.Manager
	db *database.DB
	// isolation is the backend's name.
	isolation string
	backend   backend
	dir       string
	run       string
	server    string // the path of the server's socket

	tree       layer.Digest // the host template
	layers     *layer.Store
	workspaces *workspace.Store
}

// hostTemplate is the one template.
type hostTemplate layer.Digest

func (d hostTemplate) Layers(context.Context, string) ([]layer.Digest, error) {
	return []layer.Digest{layer.Digest(d)}, nil
}
func (d hostTemplate) Shows(o layer.Digest) (bool, error) { return o == layer.Digest(d), nil }

// serverSandboxes gives the server the manager in the server's words.
type serverSandboxes struct {
	*manager.Creator
	*manager.Sandboxes
	*manager.Guests
}

func (d serverSandboxes) StartExec(ctx context.Context, id api.SandboxID, req api.ExecRequest) (httpapi.ExecStream, error) {
	s, err := d.Guests.StartExec(ctx, id, req)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (d serverSandboxes) Upload(context.Context, api.SandboxID, int64) error { return nil }

func (d serverSandboxes) Page(ctx context.Context, all bool, _ api.PageRequest) ([]api.Sandbox, string, error) {
	rows, err := d.Sandboxes.List(ctx, all)
	return rows, "", err
}

func (d serverSandboxes) ExecPage(ctx context.Context, id api.SandboxID, _ api.PageRequest) ([]api.Exec, string, error) {
	rows, err := d.Guests.Execs(ctx, id)
	return rows, "", err
}

// noSnapshots is what nobody here asks for.
type noSnapshots struct{ unasked }

type unasked = httpapi.Snapshots

func (d serverSandboxes) AttachExec(ctx context.Context, id api.SandboxID, exec api.ExecID, offset int64) (httpapi.ExecStream, error) {
	s, err := d.Guests.AttachExec(ctx, id, exec, offset)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// newWorld builds the system. It is taken down with the test, and then nothing
// may be left.
func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldOf(t, "container", "")
}

// backend is one that ends.
type backend interface {
	sandbox.Backend
	Close() error
}

// isolations are the backends that isolate, each of which is attacked.
var isolations = []string{"container", "gvisor", "docker", "wasm", "microvm", "e2b", "daytona"}

// ownKernel reports whether sandboxes have kernels of their own, which their limits of memory bound whole.
func (w *world) ownKernel() bool { return w.isolation == "gvisor" || w.isolation == "microvm" }

// needs skips an attack that is made by what the backend lacks.
func (w *world) needs(t *testing.T, c api.Capability) {
	t.Helper()
	if a, ok := w.backend.Probe(t.Context()).Has(c); !ok {
		t.Skipf("%s lacks %s, by which this attack is made: %s", w.isolation, c, a.Reason)
	}
}

// guestIsUser reports whether commands run as the user of their guest, so that they can end it, and with it their own sandbox.
func (w *world) guestIsUser() bool { return atService(w.isolation) }

// atService reports whether the sandboxes of a backend are at a service.
func atService(isolation string) bool { return isolation == "e2b" || isolation == "daytona" }

// ended wants a sandbox whose guest was ended from inside to be over, and its reason to say so.
func (w *world) ended(t *testing.T, id api.SandboxID) {
	t.Helper()
	eventually(t, "the end of the sandbox is noticed", func() bool {
		row, err := w.Sandboxes.Get(t.Context(), id)
		return err == nil && row.State.Final() && strings.Contains(row.Reason, "guest exited")
	})
}

// onEach makes an attack on every backend that isolates.
func onEach(t *testing.T, attack func(t *testing.T, w *world)) { each(t, attack, false) }

// onEachAtOnce is onEach with the backends side by side, for attacks that wait a lot and
// measure nothing of the host's or of this process.
func onEachAtOnce(t *testing.T, attack func(t *testing.T, w *world)) { each(t, attack, true) }

func each(t *testing.T, attack func(t *testing.T, w *world), atOnce bool) {
	for _, isolation := range isolations {
		t.Run(isolation, func(t *testing.T) {
			if isolation != "container" {
				// Such attacks end at a kernel which holds the same for every user, or at an engine.
				tier.AnyUser(t)
			}
			if top, _, _ := strings.Cut(t.Name(), "/"); isolation == "docker" && !inCI[top] || isolation == "microvm" || atService(isolation) {
				tier.Soak(t)
			}
			needsPrograms(t, isolation)
			if atOnce && isolation != "microvm" { // which has a processor's work to do if it is emulated
				t.Parallel()
			}
			attack(t, newWorldOf(t, isolation, ""))
		})
	}
}

// open makes the backend. programs, where it is not empty, are gvisor's instead of
// the honest ones.
func (w *world) open(t *testing.T, programs string) (backend, error) {
	t.Helper()
	cfg := jail.Config{Dir: w.run, Layers: w.layers, Workspaces: w.workspaces}
	if w.isolation == "container" {
		return container.New(cfg)
	}
	if w.isolation == "wasm" {
		return wasm.New(wasm.Config{Dir: w.run, Modules: modulesDir})
	}
	if w.isolation == "docker" {
		return docker.New(docker.Config{Dir: w.run, Layers: w.layers, Workspaces: w.workspaces, Guest: staticGuest(t), Host: engine.host(t)})
	}
	if w.isolation == "microvm" {
		return microvmtest.New(t, microvm.Config{Dir: w.run, Layers: w.layers}, filepath.Join(filepath.Dir(layersDir), "machines")), nil
	}
	if atService(w.isolation) {
		return w.openService(t)
	}
	if w.isolation == "kubernetes" {
		return w.asPods(t)
	}
	honest := tools.Dir(t)
	if programs == "" {
		programs = honest
	}
	cfg.Guest = filepath.Join(honest, tools.Guest)
	return gvisor.New(gvisor.Config{Tools: programs, Version: "test", GuestDigest: "test", Jail: cfg})
}

// newWorldOf is newWorld over one backend.
func newWorldOf(t *testing.T, isolation, programs string) *world {
	t.Helper()
	return newWorldOver(t, isolation, programs, layersDir)
}

// newWorldOver is newWorldOf with the host template in a store of the caller's.
func newWorldOver(t *testing.T, isolation, programs, dir string) *world {
	t.Helper()
	return newWorldFrom(t, isolation, programs, dir, image.Config{Home: os.Getenv("HOME"), Path: os.Getenv("PATH")})
}

// newWorldFrom is newWorldOver with a host template of another home directory.
func newWorldFrom(t *testing.T, isolation, programs, dir string, template image.Config) *world {
	t.Helper()
	needsCluster(t, isolation)
	w := &world{dir: t.TempDir(), isolation: isolation}
	w.run = filepath.Join(w.dir, "run")
	layers, err := layer.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Open("/proc/self/exe") // which is sudo, too
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	template.Store, template.Sudo, template.SudoKey = layers, self, "test"
	tree, err := image.NewHost(template).Prepare(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.layers, w.tree = layers, tree.Digest
	if isolation == "microvm" && len(template.Toolchains) == 0 { // of the host's template a disk takes minutes to make
		w.tree = microvmtest.Tree(t, layers)
	}
	if w.workspaces, err = workspace.Open(t.Context(), workspace.Config{Dir: filepath.Join(w.dir, "workspaces"), Layers: layers}); err != nil {
		t.Fatal(err)
	}
	if w.backend, err = w.open(t, programs); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { check(t, "close the backend", w.backend.Close()) })
	// A hostile guest fails the probe.
	if a, ok := w.backend.Probe(t.Context()).Has(api.CapStart); !ok && programs == "" {
		if isolation == "gvisor" {
			tools.Cannot(t, "this host cannot run gvisor: %s; %s", a.Reason, a.Fix)
		}
		t.Skipf("this host cannot run containers: %s; %s", a.Reason, a.Fix)
	}
	if w.db, err = database.OpenSQLite(t.Context(), database.SQLite{Path: filepath.Join(w.dir, "db")}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { check(t, "close the store", w.db.Close()) })
	owner := store.Owner{ID: api.NewOwnerID(), Host: "here", LockPath: filepath.Join(w.dir, "lock"), PID: os.Getpid(), StartedAt: time.Now()}
	if err := w.db.InsertOwner(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	log := event.NewLog(event.Config{Store: w.db})
	t.Cleanup(func() { log.Close() })
	w.Manager = manager.New(manager.Config{
		Owner: owner.ID, Backends: []sandbox.Backend{w.backend}, Templates: hostTemplate(w.tree), Rows: w.db, Log: log,
	})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		check(t, "close the manager", w.Manager.Close(ctx))
	})
	w.openServer(t)
	return w
}

// openServer serves the server on a unix socket.
func (w *world) openServer(t *testing.T) {
	t.Helper()
	dir, err := os.MkdirTemp("", "server-") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	w.server = filepath.Join(dir, "sock")
	l, err := net.Listen("unix", w.server)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{
		Handler:     httpapi.New(httpapi.Config{Sandboxes: serverSandboxes{w.Creator, w.Sandboxes, w.Guests}, Snapshots: noSnapshots{}}),
		BaseContext: func(net.Listener) context.Context { return api.WithPrincipal(context.Background(), api.Operator()) },
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = srv.Serve(l) // ends with Close
	}()
	t.Cleanup(func() {
		srv.Close()
		<-served
	})
}

func (w *world) dialServer(ctx context.Context) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "unix", w.server)
}

func check(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

// within bounds a call with patience.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// create starts a sandbox, which is killed with proof when the test ends.
func (w *world) create(t *testing.T, change func(*api.CreateSandbox)) api.Sandbox {
	t.Helper()
	req := api.CreateSandbox{Isolation: w.isolation, TTLMS: (10 * time.Minute).Milliseconds()}
	if change != nil {
		change(&req)
	}
	s, err := w.Creator.Create(within(t), req)
	if err != nil {
		t.Fatalf("create: %v (%s)", err, api.HintOf(err))
	}
	t.Cleanup(func() { w.kill(t, s.ID) })
	return s
}

// kill ends a sandbox and wants the proof, and nothing left on the host.
func (w *world) kill(t *testing.T, id api.SandboxID) api.Proof {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	row, proof, err := w.Sandboxes.Kill(ctx, id)
	if err != nil || proof.Left != 0 || proof.How == "" {
		t.Errorf("kill %s: proof %+v, %v", id, proof, err)
	}
	if !row.State.Final() {
		t.Errorf("%s is %s after its kill", id, row.State)
	}
	if left := w.leftovers(id); len(left) > 0 {
		t.Errorf("left of %s: %q", id, left)
	}
	return proof
}

// leftovers looks for a sandbox's id wherever something could be left.
func (w *world) leftovers(id api.SandboxID) []string {
	var left []string
	if _, err := os.Lstat(filepath.Join(w.run, string(id))); err == nil {
		left = append(left, "directory "+string(id))
	}
	_ = filepath.WalkDir("/sys/fs/cgroup", func(p string, d fs.DirEntry, err error) error {
		if err == nil && strings.Contains(d.Name(), string(id)) {
			left = append(left, "cgroup "+p)
		}
		return nil // what vanishes meanwhile is not left
	})
	if b, err := os.ReadFile("/proc/self/mountinfo"); err == nil && strings.Contains(string(b), string(id)) {
		left = append(left, "a mount of the host's")
	}
	return left
}

// result is what a command did.
type result struct {
	stdout, stderr string
	exec           api.Exec
}

// maxKept bounds what run keeps of each stream.
const maxKept = 8 << 20

// try runs a command to its end.
func (w *world) try(ctx context.Context, id api.SandboxID, req api.ExecRequest) (result, error) {
	s, err := w.Guests.StartExec(ctx, id, req)
	if err != nil {
		return result{}, err
	}
	defer s.Close()
	stop := context.AfterFunc(ctx, func() { w.Sandboxes.Kill(context.WithoutCancel(ctx), id) })
	defer stop()
	var out, errOut bytes.Buffer
	for {
		ev, err := s.Next()
		if errors.Is(err, io.EOF) {
			return result{out.String(), errOut.String(), s.Exec()}, nil
		}
		if err != nil {
			return result{out.String(), errOut.String(), s.Exec()}, err
		}
		if ev.Data != nil && out.Len()+errOut.Len() < maxKept {
			out.Write(ev.Data.Stdout)
			out.Write(ev.Data.PTY)
			errOut.Write(ev.Data.Stderr)
		}
	}
}

// exec runs a command as user, to its end.
func (w *world) exec(t *testing.T, id api.SandboxID, user string, args ...string) result {
	t.Helper()
	r, err := w.try(within(t), id, api.ExecRequest{Args: args, User: user})
	if err != nil {
		t.Fatalf("%q as %s: %v\n%s%s", args, user, err, r.stdout, r.stderr)
	}
	return r
}

// alive wants a sandbox to answer normally, within a few tries: a host that
// another sandbox just exhausted may refuse one.
func (w *world) alive(t *testing.T, id api.SandboxID) {
	t.Helper()
	args := []string{"echo", "alive"}
	if w.isolation == "wasm" {
		args = []string{"qjs", "-e", `console.log("alive")`}
	}
	var r result
	var err error
	for range 3 {
		r, err = w.try(within(t), id, api.ExecRequest{Args: args})
		if err == nil && r.stdout == "alive\n" && r.exec.Exit.Code == 0 {
			return
		}
	}
	t.Errorf("sandbox %s does not answer normally: %+v, %v", id, r, err)
}

// program puts this test binary into a sandbox and gives its path there.
func (w *world) program(t *testing.T, id api.SandboxID) string {
	t.Helper()
	const path = "/home/user/attack"
	c, err := w.Guests.Client(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	if err := c.WriteFile(within(t), "user", path, self); err != nil {
		t.Fatalf("write the program: %v", err)
	}
	if r := w.exec(t, id, "user", "chmod", "755", path); r.exec.Exit.Code != 0 {
		t.Fatalf("chmod: %+v", r)
	}
	return path
}

// guest returns the client of a sandbox's guest.
func (w *world) guest(t *testing.T, id api.SandboxID) *envd.Client {
	t.Helper()
	c, err := w.Guests.Client(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
