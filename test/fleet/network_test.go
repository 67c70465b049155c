package fleet

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/daemon/datadir"
	"hortus.dev/internal/store/database"
	"hortus.dev/test/patience"
	"hortus.dev/test/postgrestest"
	"hortus.dev/test/world"
)

// network are network namespaces that are joined by a bridge: one with the database, at hub, and one for each node.
type network struct {
	t      *testing.T
	spaces []string // the first one is the hub
}

// address is that of a namespace: 0 is the hub.
func address(i int) string { return fmt.Sprintf("10.213.7.%d", i+1) }

// newNetwork makes n namespaces and the hub. The test is skipped if it may not.
func newNetwork(t *testing.T, n int) *network {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can make network namespaces")
	}
	for _, program := range []string{"ip", "iptables"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("no network namespaces: %v; install Debian's iproute2 and iptables", err)
		}
	}
	w := &network{t: t}
	for i := range n + 1 {
		name := fmt.Sprintf("hortus-%d-%d", os.Getpid(), i)
		if out, err := exec.Command("ip", "netns", "add", name).CombinedOutput(); err != nil {
			t.Skipf("this host makes no network namespaces: %v: %s", err, out)
		}
		t.Cleanup(func() { w.run("ip", "netns", "del", name) })
		w.spaces = append(w.spaces, name)
		w.run("ip", "-n", name, "link", "set", "lo", "up")
	}
	hub := w.spaces[0]
	w.run("ip", "-n", hub, "link", "add", "bridge", "type", "bridge")
	w.run("ip", "-n", hub, "addr", "add", address(0)+"/24", "dev", "bridge")
	w.run("ip", "-n", hub, "link", "set", "bridge", "up")
	for i, name := range w.spaces[1:] {
		port := fmt.Sprintf("port%d", i+1)
		w.run("ip", "-n", hub, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", name)
		w.run("ip", "-n", hub, "link", "set", port, "master", "bridge", "up")
		w.run("ip", "-n", name, "addr", "add", address(i+1)+"/24", "dev", "eth0")
		w.run("ip", "-n", name, "link", "set", "eth0", "up")
	}
	return w
}

func (w *network) run(name string, args ...string) {
	w.t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		w.t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
}

// in calls do in a namespace.
func (w *network) in(i int, do func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		f, err := os.Open(filepath.Join("/run/netns", w.spaces[i]))
		if err == nil {
			defer f.Close()
			err = unix.Setns(int(f.Fd()), unix.CLONE_NEWNET)
		}
		if err == nil {
			err = do()
		}
		done <- err
	}()
	return <-done
}

// drop drops what comes from one namespace, at another one.
func (w *network) drop(from, at int) { w.rule("-A", from, at) }

// pass ends drop.
func (w *network) pass(from, at int) { w.rule("-D", from, at) }

func (w *network) rule(how string, from, at int) {
	w.t.Helper()
	w.run("ip", "netns", "exec", w.spaces[at], "iptables", "-w", how, "INPUT", "-s", address(from), "-j", "DROP")
}

// cut drops everything between two namespaces.
func (w *network) cut(a, b int)  { w.drop(a, b); w.drop(b, a) }
func (w *network) join(a, b int) { w.pass(a, b); w.pass(b, a) }

// farm is a fleet of processes in a network.
type farm struct {
	*network
	base
	db    *database.DB
	dirs  []string
	nodes []child // nodes[0] is not used: nodes are numbered as their namespaces
}

// newFarm starts nodes in a network, with the names n1, n2 and so on.
func newFarm(t *testing.T, n int) *farm {
	t.Helper()
	f := &farm{network: newNetwork(t, n)}
	server := postgrestest.Start(t)
	name := server.Database(t)
	var l net.Listener
	world.OK(t, f.in(0, func() (err error) { l, err = net.Listen("tcp", address(0)+":0"); return err }))
	f.base = base{key: make([]byte, 32)}
	f.store.URL = server.ProxyAt(t, l).URL(name)
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
	world.OK(f.t, os.WriteFile(config, fmt.Appendf(nil, "[store]\nurl = %q\n[fleet]\nname = %q\nlisten = \"%s:7071\"\n", f.store.URL, name, address(i)), 0o600))
	out, err := os.Create(log)
	world.OK(f.t, err)
	defer out.Close()
	c := child{Cmd: exec.Command("/proc/self/exe", "daemon", "run", "--data-dir", f.dirs[i], "--config", config, "--idle", "never", "--pool", "0"), client: client.Unix(datadir.Dir(f.dirs[i]).Socket())}
	c.Args[0], c.Stdout, c.Stderr = "hortus", out, out
	c.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	world.OK(f.t, f.in(i, c.Start))
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
