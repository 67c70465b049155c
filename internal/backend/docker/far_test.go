package docker_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/backend/docker"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/storage/image"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/workspace"
	"hortus.dev/test/dockertest"
	"hortus.dev/test/tier"
	"hortus.dev/test/tools"
)

// farBench is an engine that shares no directory with this process, and a store with a layer of a few programs.
type farBench struct {
	*bench
	far      *dockertest.Far
	programs layer.Digest
}

func newFarBench(t *testing.T) *farBench {
	t.Helper()
	tier.AnyUser(t)
	f := &farBench{far: dockertest.StartFar(t)}
	f.bench = &bench{engine: f.far.Engine, dir: t.TempDir(), guest: tools.Program(t, "./cmd/hortus-guest")}
	var err error
	if f.layers, err = layer.Open(filepath.Join(f.dir, "layers")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.layers.Close)
	if f.workspaces, err = workspace.Open(t.Context(), workspace.Config{Dir: filepath.Join(f.dir, "workspaces"), Layers: f.layers}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.workspaces.Close)
	f.programs = "sha256-" + layer.Digest(strings.Repeat("d", 64))
	_, err = f.layers.Put(t.Context(), f.programs, func(_ context.Context, dir string) (layer.Tree, error) {
		root := filepath.Join(dir, "root")
		for _, dir := range []string{"etc", "tmp", "home", "var", "run", "bin"} {
			if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
				return layer.Tree{}, err
			}
		}
		return layer.Tree{Root: root, Path: "/bin"}, copyPrograms(root, "sh", "cat", "sleep", "ls", "id")
	})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// copyPrograms copies programs of this machine to /bin of a root, with their libraries.
func copyPrograms(root string, names ...string) error {
	files := map[string]string{} // where to, and where from
	for _, name := range names {
		path, err := exec.LookPath(name)
		if err != nil {
			return err
		}
		files["/bin/"+name] = path
		out, err := exec.Command("ldd", path).Output()
		if err != nil {
			return err
		}
		for word := range strings.FieldsSeq(string(out)) {
			if strings.HasPrefix(word, "/") {
				files[word] = word
			}
		}
	}
	for to, from := range files {
		content, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		to = filepath.Join(root, to)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(to, content, 0o755); err != nil {
			return err
		}
	}
	return nil
}

func (f *farBench) openFar(t *testing.T, host string) *docker.Backend {
	t.Helper()
	d, err := docker.New(docker.Config{Dir: filepath.Join(f.dir, "run"), Layers: f.layers, Workspaces: f.workspaces, Guest: f.guest, Host: host, Certificates: f.far.Certificates})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func (f *farBench) spec() sandbox.Spec {
	return sandbox.Spec{ID: api.NewSandboxID(), Hostname: "box", Limits: api.DefaultLimits(), Layers: []layer.Digest{f.programs}}
}

// TestFar has sandboxes on an engine behind TCP with TLS, which has no file of this machine: commands, a megabyte, a pause, adoption.
func TestFar(t *testing.T) {
	f := newFarBench(t)
	d := f.openFar(t, f.far.Address)
	if a, ok := d.Probe(t.Context()).Has(api.CapStart); !ok {
		t.Fatalf("%s; %s", a.Reason, a.Fix)
	}
	spec := f.spec()
	m := start(t, d, spec)
	defer func() { m.Kill(context.Background()) }()
	if got := output(t, m, "user", "cat /etc/hostname; id -u; echo kept >/workspace/f"); !strings.HasPrefix(got, "box\n1000\n") {
		t.Errorf("%q", got)
	}
	want := strings.Repeat("0123456789", 100_000)
	if got := output(t, m, "user", `i=0; while [ $i -lt 1000 ]; do echo -n `+want[:1000]+`; i=$((i+1)); done`); got != want {
		t.Errorf("%d bytes of %d", len(got), len(want))
	}
	if err := m.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := m.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := output(t, m, "root", "cat /workspace/f"); got != "kept\n" {
		t.Errorf("after a pause: %q", got)
	}
	if err := m.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = f.openFar(t, f.far.Address) // another daemon
	a, err := d.Adopt(t.Context(), spec.ID)
	if err != nil {
		t.Fatal(err)
	}
	m = a.Machine
	if got := output(t, m, "user", "cat /workspace/f"); got != "kept\n" {
		t.Errorf("adopted: %q", got)
	}
	kill(t, m)
	if left := f.docker(t, "ps", "-aq"); left != "" {
		t.Errorf("left: %s", left)
	}
}

// cutter is a TCP proxy whose connections can be cut.
type cutter struct {
	net.Listener
	to    string
	mu    sync.Mutex
	conns []net.Conn
	work  sync.WaitGroup
}

func newCutter(t *testing.T, to string) *cutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{Listener: l, to: strings.TrimPrefix(to, "tcp://")}
	c.work.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", c.to)
			if err != nil {
				in.Close()
				continue
			}
			c.mu.Lock()
			c.conns = append(c.conns, in, out)
			c.mu.Unlock()
			for _, p := range [][2]net.Conn{{in, out}, {out, in}} {
				c.work.Go(func() {
					io.Copy(p[0], p[1])
					p[0].Close()
					p[1].Close()
				})
			}
		}
	})
	t.Cleanup(func() { l.Close(); c.cut(); c.work.Wait() })
	return c
}

// cut cuts every connection.
func (c *cutter) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		conn.Close()
	}
	c.conns = nil
}

// TestFarBreaks cuts the connections to the engine: the sandbox lives on, and so do its commands, and their streams have ended.
func TestFarBreaks(t *testing.T) {
	f := newFarBench(t)
	c := newCutter(t, f.far.Address)
	d := f.openFar(t, "tcp://"+c.Addr().String())
	m := start(t, d, f.spec())
	defer func() { m.Kill(context.Background()) }()
	for i := range 3 {
		conn, err := m.Link().Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		output(t, m, "user", fmt.Sprintf("echo %d >>/workspace/f", i))
		c.cut()
		if _, err := io.ReadAll(conn); err != nil {
			t.Logf("the end of a stream that was cut: %v", err)
		}
		conn.Close()
	}
	if got := output(t, m, "user", "cat /workspace/f"); got != "0\n1\n2\n" {
		t.Errorf("%q", got)
	}
	select {
	case <-m.Done():
		t.Errorf("it has ended: %s", m.Cause())
	default:
	}
	kill(t, m)
}

// TestFarSSH has an ssh that executes the remote command here.
func TestFarSSH(t *testing.T) {
	f := newFarBench(t)
	dir := t.TempDir()
	script := "#!/bin/sh\nwhile [ \"$1\" != -- ]; do shift; done\nshift 2\n[ \"$*\" = 'docker system dial-stdio' ] || exit 9\nexec env DOCKER_HOST=" + f.far.Host + " HOME=/nowhere " + dockertest.Client + " system dial-stdio\n"
	if err := os.WriteFile(filepath.Join(dir, "ssh"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	d := f.openFar(t, "ssh://user@host")
	m := start(t, d, f.spec())
	defer func() { m.Kill(context.Background()) }()
	if got := output(t, m, "user", "id -u"); got != "1000\n" {
		t.Errorf("%q", got)
	}
	kill(t, m)
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// TestFarWorkspace stores what was changed in a durable workspace, at a pause, at the end, and by the daemon after the next.
func TestFarWorkspace(t *testing.T) {
	tier.Soak(t)
	f := newFarBench(t)
	spec := f.spec()
	var stored func(string) string
	spec.Workspace, stored = f.desk(t)
	d := f.openFar(t, f.far.Address)
	m := start(t, d, spec)
	if got := output(t, m, "user", "cat /workspace/base; echo new >/workspace/new"); got != "base\n" {
		t.Errorf("%q", got)
	}
	if err := m.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := stored("new"); got != "new\n" {
		t.Errorf("after a pause %q is stored", got)
	}
	if err := m.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	output(t, m, "user", "echo newer >/workspace/new")
	kill(t, m)
	if got := stored("new"); got != "newer\n" {
		t.Errorf("after the end %q is stored", got)
	}
	spec.ID = api.NewSandboxID()
	m = start(t, d, spec)
	if got := output(t, m, "user", "cat /workspace/new; echo newest >/workspace/new"); got != "newer\n" {
		t.Errorf("%q", got)
	}
	// Two daemons after another: one adopts it, and one finds what is left.
	if err := m.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	d = f.openFar(t, f.far.Address)
	a, err := d.Adopt(t.Context(), spec.ID)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Machine.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	d = f.openFar(t, f.far.Address)
	if proof, err := d.Reclaim(t.Context(), spec.ID); err != nil || proof.Left != 0 || proof.Killed == 0 {
		t.Errorf("%+v, %v", proof, err)
	}
	if got := stored("new"); got != "newest\n" {
		t.Errorf("after a reclaim %q is stored", got)
	}
}

// TestFarRefuses has an engine without its certificate, and a template of this machine's directories.
func TestFarRefuses(t *testing.T) {
	f := newFarBench(t)
	d, err := docker.New(docker.Config{Dir: filepath.Join(f.dir, "run"), Layers: f.layers, Workspaces: f.workspaces, Guest: f.guest, Host: f.far.Address})
	if err != nil {
		t.Fatal(err)
	}
	if a, ok := d.Probe(t.Context()).Has(api.CapStart); ok || !strings.Contains(a.Reason, f.far.Address) {
		t.Errorf("an engine that wants certificates answers without them: %+v", a)
	}
	d = f.openFar(t, f.far.Address)
	host, err := image.NewHost(image.Config{Store: f.layers, Path: os.Getenv("PATH")}).Prepare(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	spec := f.spec()
	spec.Layers = []layer.Digest{host.Digest}
	if _, err := d.Start(t.Context(), spec); api.KindOf(err) != api.KindUnsupported || !strings.Contains(api.HintOf(err), "--from-image") {
		t.Errorf("the template of this machine: %v (%s)", err, api.HintOf(err))
	}
	if left := f.docker(t, "ps", "-aq"); left != "" {
		t.Errorf("left: %s", left)
	}
}
