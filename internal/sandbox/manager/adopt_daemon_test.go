package manager_test

import (
	"bufio"
	"context"
	"fmt"
	"hortus.dev/internal/sandbox/manager"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/backend/container"
	"hortus.dev/internal/backend/process"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/workspace"
	"hortus.dev/internal/store"
	"hortus.dev/internal/store/database"
	"hortus.dev/internal/store/event"
	"hortus.dev/test/patience"
	"hortus.dev/test/storetest"
)

const (
	keepDir  = "HORTUS_TEST_KEEP_DIR"
	keepWhat = "HORTUS_TEST_KEEP"
)

const keptLayer = layer.Digest("host-1111111111111111111111111111111111111111111111111111111111111111")

// keptTree is what a workspace lies on.
const keptTree = layer.Digest("sha256-2222222222222222222222222222222222222222222222222222222222222222")

type keptTemplates struct{}

func (keptTemplates) Layers(context.Context, string) ([]layer.Digest, error) {
	return []layer.Digest{keptLayer}, nil
}
func (keptTemplates) Shows(d layer.Digest) (bool, error) { return d == keptLayer, nil }

// daemon is a manager over real containers, as one daemon of a directory has it.
type daemon struct {
	*manager.Manager
	db      *database.DB
	log     *event.Log
	backend *container.Backend
	owner   api.OwnerID
}

// openDaemon opens the next daemon of a directory; change may be nil.
func openDaemon(t *testing.T, dir string, change func(*manager.Config)) *daemon {
	t.Helper()
	layers, err := layer.Open(filepath.Join(dir, "layers"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := layers.Put(t.Context(), keptLayer, hostTree); err != nil {
		t.Fatal(err)
	}
	_, err = layers.Put(t.Context(), keptTree, func(_ context.Context, dir string) (layer.Tree, error) {
		return layer.Tree{Root: filepath.Join(dir, "root")}, os.Mkdir(filepath.Join(dir, "root"), 0o755)
	})
	if err != nil {
		t.Fatal(err)
	}
	workspaces, err := workspace.Open(t.Context(), workspace.Config{Dir: filepath.Join(dir, "workspaces"), Layers: layers})
	if err != nil {
		t.Fatal(err)
	}
	b, err := container.New(container.Config{Dir: filepath.Join(dir, "run"), Layers: layers, Workspaces: workspaces})
	if err != nil {
		t.Fatal(err)
	}
	if a, ok := b.Probe(t.Context()).Has(api.CapStart); !ok {
		t.Skipf("this machine runs no containers: %s", a.Reason)
	}
	p, err := process.New(process.Config{Dir: filepath.Join(dir, "processes"), Guest: self(t), Path: os.Getenv("PATH")})
	if err != nil {
		t.Fatal(err)
	}
	db, err := database.OpenSQLite(t.Context(), database.SQLite{Path: filepath.Join(dir, "db"), Ahead: true})
	if err != nil {
		t.Fatal(err)
	}
	d := &daemon{db: db, log: event.NewLog(event.Config{Store: db}), backend: b, owner: api.NewOwnerID()}
	if err := db.InsertOwner(t.Context(), store.Owner{ID: d.owner, Host: "here", LockPath: "/x", PID: 1, StartedAt: time.Now()}); err != nil {
		t.Fatal(err)
	}
	cfg := manager.Config{
		Owner: d.owner, Backends: []sandbox.Backend{b, p}, Templates: keptTemplates{}, Rows: db, Log: d.log,
		Build: "tested",
	}
	if change != nil {
		change(&cfg)
	}
	d.Manager = manager.New(cfg)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience.Of(time.Minute))
		defer cancel()
		if err := d.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
		if err := b.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		d.log.Close()
		db.Close()
	})
	return d
}

func self(t *testing.T) *os.File {
	t.Helper()
	f, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// hostTree is a root with this host's /usr.
func hostTree(_ context.Context, dir string) (layer.Tree, error) {
	root := filepath.Join(dir, "root")
	for _, d := range []string{"", "usr", "etc", "proc", "dev", "sys", "home", "tmp", "run", "var"} {
		if err := os.Mkdir(filepath.Join(root, d), 0o755); err != nil {
			return layer.Tree{}, err
		}
	}
	for _, l := range []string{"bin", "sbin", "lib", "lib64"} {
		if target, err := os.Readlink("/" + l); err == nil {
			if err := os.Symlink(target, filepath.Join(root, l)); err != nil {
				return layer.Tree{}, err
			}
		}
	}
	return layer.Tree{Root: root, Mounts: []layer.Mount{{Target: "/usr", Lowers: []string{"/usr"}}}, Path: "/usr/bin:/bin"}, nil
}

func (d *daemon) recover(t *testing.T) manager.Recovered {
	t.Helper()
	if err := storetest.EndOthers(t.Context(), d.db, d.owner); err != nil {
		t.Fatal(err)
	}
	did, err := d.Recoverer.Recover(t.Context(), func(o api.OwnerID) bool { return o != d.owner })
	if err != nil {
		t.Fatalf("recover: %v", err)
	}
	return did
}

func keptSandbox() api.CreateSandbox {
	return api.CreateSandbox{Isolation: "container", TTLMS: (10 * time.Minute).Milliseconds(), Labels: map[string]string{"a": "b"}, Env: map[string]string{"GIVEN": "yes"}}
}

// script starts a command that nobody reads.
func (d *daemon) script(t *testing.T, id api.SandboxID, text string, change func(*api.ExecRequest)) api.ExecID {
	t.Helper()
	req := api.ExecRequest{Args: []string{"sh", "-c", text}}
	if change != nil {
		change(&req)
	}
	s, err := d.Guests.StartExec(t.Context(), id, req)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	return s.Exec().ID
}

// output attaches to a command and reads on from an offset to its end.
func (d *daemon) output(t *testing.T, id api.SandboxID, x api.ExecID, offset int64) (string, *envd.EndEvent) {
	t.Helper()
	s, err := d.Guests.AttachExec(t.Context(), id, x, offset)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var out strings.Builder
	for {
		ev, err := s.Next()
		if err != nil {
			t.Fatalf("after %d bytes: %v", out.Len(), err)
		}
		switch {
		case ev.Start != nil && ev.Start.Offset != offset:
			t.Fatalf("it begins at %d, not at %d", ev.Start.Offset, offset)
		case ev.Data != nil:
			out.Write(ev.Data.Stdout)
		case ev.End != nil:
			end := *ev.End
			return out.String(), &end
		}
	}
}

// final waits for the end of a command's record.
func (d *daemon) final(t *testing.T, x api.ExecID) api.Exec {
	t.Helper()
	var row api.Exec
	eventually(t, "the command's record is final", func() (ok bool) {
		var err error
		row, err = d.db.Exec(t.Context(), x)
		return err == nil && row.State != api.ExecRunning
	})
	return row
}

const (
	lines    = 400
	counting = `i=0; while [ $i -lt 400 ]; do echo line $i; i=$((i+1)); [ $((i % 10)) != 0 ] || sleep 0.02; done; exit 7`
	awayMark = "0.4319" // of a sleep that ends while nobody is there
	flooding = `seq 1 400000; exit 9`
)

func counted() string {
	var b strings.Builder
	for i := range lines {
		fmt.Fprintln(&b, "line", i)
	}
	return b.String()
}

// TestKeepDaemon is the child of the tests below: a daemon that makes what they ask
// for and waits to be killed.
func TestKeepDaemon(t *testing.T) {
	dir := os.Getenv(keepDir)
	if dir == "" {
		t.Skip("it is run by other tests")
	}
	var clock wallClock
	d := openDaemon(t, dir, func(c *manager.Config) {
		switch os.Getenv(keepWhat) {
		case "pool":
			c.Pool = 2
		case "clock", "clock set":
			c.Now, c.Uptime = clock.now, kernelClock(t, 0)
		}
	})
	req := keptSandbox()
	switch os.Getenv(keepWhat) {
	case "task":
		req.Task = api.NewTaskID()
	case "process":
		req.Isolation, req.Env = "process", nil
	}
	create := func() (api.Sandbox, error) { return d.Creator.Create(t.Context(), req) }
	if os.Getenv(keepWhat) == "workspace" {
		create = func() (api.Sandbox, error) {
			return d.Creator.CreateIn(t.Context(), req, sandbox.Workspace{Layers: []layer.Digest{keptTree}})
		}
	}
	s, err := create()
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("box", s.ID)
	switch os.Getenv(keepWhat) {
	case "commands":
		fmt.Println("counting", d.script(t, s.ID, counting, nil))
		fmt.Println("away", d.script(t, s.ID, "sleep "+awayMark+"; echo late; exit 5", nil))
		fmt.Println("killed", d.script(t, s.ID, "kill -9 $$", func(r *api.ExecRequest) { r.TimeoutMS = 60_000 }))
		fmt.Println("flooding", d.script(t, s.ID, flooding, nil))
		cat := d.script(t, s.ID, "cat; exit 4", func(r *api.ExecRequest) { r.Stdin = true })
		c, err := d.Guests.Client(t.Context(), s.ID)
		if err != nil {
			t.Fatal(err)
		}
		row, err := d.db.Exec(t.Context(), cat)
		if err != nil {
			t.Fatal(err)
		}
		pid := uint32(0)
		for _, p := range must(c.List(t.Context()))(t) {
			if len(p.Config.Args) > 1 && strings.HasPrefix(p.Config.Args[1], "cat;") {
				pid = p.PID
			}
		}
		if err := c.SendInput(t.Context(), envd.Selector{PID: &pid}, envd.ProcessInput{Stdin: []byte("acknowledged\n")}); err != nil {
			t.Fatal(err)
		}
		fmt.Println("cat", row.ID, pid)
	case "paused":
		fmt.Println("counting", d.script(t, s.ID, counting, nil))
		if _, err := d.Sandboxes.Pause(t.Context(), s.ID); err != nil {
			t.Fatal(err)
		}
	case "clock":
		if _, err := d.Sandboxes.SetTTL(t.Context(), s.ID, 10*time.Minute); err != nil {
			t.Fatal(err)
		}
	case "clock set":
		if _, err := d.Sandboxes.SetTTL(t.Context(), s.ID, 10*time.Minute); err != nil {
			t.Fatal(err)
		}
		clock.jump(time.Hour)
		if _, err := d.Sandboxes.Extend(t.Context(), s.ID, time.Minute); err != nil { // its row is stored, before anybody looks at the clock
			t.Fatal(err)
		}
	case "held":
		if err := d.Sandboxes.Held(t.Context(), s.ID); err != nil {
			t.Fatal(err)
		}
	case "pool":
		if err := d.Creator.KeepWarm(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		if err := d.Creator.AwaitWarm(t.Context()); err != nil {
			t.Fatal(err)
		}
	case "sleeping":
		fmt.Println("sleeping", d.script(t, s.ID, "sleep 86397.25", nil))
	}
	fmt.Println("ready")
	select {}
}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// killDaemon has a daemon make something, and kills it. It gives what was made.
func killDaemon(t *testing.T, dir, what string) map[string]string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKeepDaemon$", "-test.v")
	cmd.Env = append(os.Environ(), keepDir+"="+dir, keepWhat+"="+what)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	made, said := map[string]string{}, ""
	for r := bufio.NewScanner(out); r.Scan(); {
		said += r.Text() + "\n"
		name, value, ok := strings.Cut(r.Text(), " ")
		if ok {
			made[name] = value
		}
		if r.Text() == "ready" {
			_ = cmd.Process.Kill()
		}
	}
	_ = cmd.Wait()
	if st, _ := cmd.ProcessState.Sys().(syscall.WaitStatus); st.Signal() != syscall.SIGKILL {
		if strings.Contains(said, "SKIP") {
			t.Skip(said)
		}
		t.Fatalf("the daemon was not killed: %s", said)
	}
	return made
}

// alive reports whether a process of this host has a text in its command line.
func alive(t *testing.T, text string) bool {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		b, err := os.ReadFile(f)
		if err == nil && strings.Contains(strings.ReplaceAll(string(b), "\x00", " "), text) {
			return true
		}
	}
	return false
}
