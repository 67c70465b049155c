package docker_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/backend/docker"
	"hortus.dev/internal/sandbox"
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
