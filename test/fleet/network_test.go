package fleet

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/daemon/datadir"
	"hortus.dev/internal/store/database"
	"hortus.dev/test/network"
	"hortus.dev/test/patience"
	"hortus.dev/test/postgrestest"
	"hortus.dev/test/world"
)

// farm is a fleet of processes in a network.
type farm struct {
	*network.Network
	t *testing.T
	base
	db    *database.DB
	dirs  []string
	nodes []child // nodes[0] is not used: nodes are numbered as their namespaces
}

// newFarm starts nodes in a network, with the names n1, n2 and so on.
func newFarm(t *testing.T, n int) *farm {
	t.Helper()
	f := &farm{Network: network.New(t, n), t: t}
	server := postgrestest.Start(t)
	name := server.Database(t)
	f.base = base{key: make([]byte, 32)}
	f.store.URL = server.ProxyAt(t, f.Listen(0, network.Address(0)+":0")).URL(name)
	f.dirs, f.nodes = make([]string, n+1), make([]child, n+1)
	for i := range f.dirs[1:] {
		i++
		f.dirs[i] = f.dir(t)
		f.boot(i)
	}
	world.Must(f.nodes[1].client.InitFleet(t.Context()))(t)
	var err error
	f.db, err = database.OpenPostgres(t.Context(), database.Postgres{URL: server.URL(postgrestest.User, name), KeyFile: filepath.Join(f.dirs[1], "hortus.db-key")})
	world.OK(t, err)
	t.Cleanup(func() { f.db.Close() })
	return f
}

// boot starts a node, and waits until it serves.
func (f *farm) boot(i int) {
	f.t.Helper()
	name := fmt.Sprint("n", i)
	config, log := filepath.Join(f.t.TempDir(), "config.toml"), filepath.Join(f.t.TempDir(), "log")
	world.OK(f.t, os.WriteFile(config, fmt.Appendf(nil, "[store]\nurl = %q\n[fleet]\nname = %q\nlisten = \"%s:7071\"\n", f.store.URL, name, network.Address(i)), 0o600))
	out, err := os.Create(log)
	world.OK(f.t, err)
	defer out.Close()
	c := child{Cmd: exec.Command("/proc/self/exe", "daemon", "run", "--data-dir", f.dirs[i], "--config", config, "--idle", "never", "--pool", "0"), client: client.Unix(datadir.Dir(f.dirs[i]).Socket())}
	c.Args[0], c.Stdout, c.Stderr = "hortus", out, out
	c.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	world.OK(f.t, f.In(i, c.Start))
	f.nodes[i] = c
	f.t.Cleanup(func() {
		c.client.Close()
		if c.ProcessState == nil {
			_ = c.Process.Signal(unix.SIGTERM)
			_ = c.Wait()
		}
		if f.t.Failed() {
			text, _ := os.ReadFile(log)
			f.t.Logf("log of node %s:\n%s", name, text)
		}
	})
	until(f.t, "node "+name+" serves", func(ctx context.Context) bool { return c.client.Ready(ctx) == nil })
}

// ended waits until the process of a node ends by itself.
func (f *farm) ended(i int) {
	f.t.Helper()
	done := make(chan error, 1)
	go func() { done <- f.nodes[i].Wait() }()
	select {
	case <-done:
	case <-time.After(patience.Of(time.Minute)):
		f.t.Errorf("node n%d goes on whose work is another's", i)
		_ = f.nodes[i].Process.Kill()
		<-done
	}
}

// nodeOf is the node of an owner.
func (f *farm) nodeOf(owner api.OwnerID) string {
	f.t.Helper()
	return world.Must(f.db.NodeOfOwner(f.t.Context(), owner))(f.t).Name
}

// boxOn makes a sandbox on a node.
func (f *farm) boxOn(i int) (box api.Sandbox) {
	f.t.Helper()
	until(f.t, fmt.Sprint("a sandbox is on node n", i), func(ctx context.Context) bool {
		s := world.Must(f.nodes[i].client.Sandboxes.Create(ctx, api.CreateSandbox{Isolation: "process"}))(f.t)
		defer s.Close()
		box = world.Must(s.Info(ctx))(f.t)
		return f.nodeOf(box.Owner) == fmt.Sprint("n", i)
	})
	return box
}

// workOn begins a task on a node.
func (f *farm) workOn(i int) (w *work) {
	f.t.Helper()
	until(f.t, fmt.Sprint("a task is on node n", i), func(context.Context) bool {
		w = begin(f.t, f.nodes[i].client)
		if f.nodeOf(w.Owner) == fmt.Sprint("n", i) {
			return true
		}
		w.finish(f.t)
		return false
	})
	until(f.t, "its program runs", func(context.Context) bool { return w.runs(f.t) == 1 })
	return w
}

// asks has a node run a command in a sandbox.
func (f *farm) asks(ctx context.Context, i int, id api.SandboxID) error {
	ctx, cancel := context.WithTimeout(ctx, patience.Of(20*time.Second))
	defer cancel()
	s, err := f.nodes[i].client.Sandboxes.Get(ctx, string(id))
	if err != nil {
		return err
	}
	defer s.Close()
	return s.Command(ctx, "true").Run()
}
