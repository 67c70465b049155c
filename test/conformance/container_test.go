package conformance

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/backend/container"
	"hortus.dev/internal/backend/jail"
	"hortus.dev/internal/backend/jail/initns"
	"hortus.dev/internal/guest"
	"hortus.dev/internal/guest/birth"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/storage/image"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/workspace"
	"hortus.dev/test/reaper"
	"hortus.dev/test/sandboxtest"
	"hortus.dev/test/tier"
)

func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case initns.Argv0:
		os.Exit(initns.Become(guest.Main))
	case birth.Argv0:
		os.Exit(guest.Main())
	}
	os.Exit(reaper.Run(func() int { return runTests(m) }))
}

// layersDir holds the host template, the same for all tests.
var layersDir string

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "hortus-conformance-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	layersDir = filepath.Join(dir, "layers")
	// Most of a case is waiting for guests that boot and end.
	flag.Parse()
	if err := flag.Set("test.parallel", "4"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// bench is what a backend is tested on: the host template, and stores of its own.
type bench struct {
	dir, run   string
	tree       layer.Digest
	layers     *layer.Store
	workspaces *workspace.Store
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{dir: t.TempDir()}
	b.run = filepath.Join(b.dir, "run")
	var err error
	if b.layers, err = layer.New(layer.Config{Dir: layersDir, PackEntries: 1}); err != nil {
		t.Fatal(err)
	}
	tree, err := image.NewHost(image.Config{Store: b.layers, Home: os.Getenv("HOME"), Path: os.Getenv("PATH")}).Prepare(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b.tree = tree.Digest
	if b.workspaces, err = workspace.Open(t.Context(), workspace.Config{Dir: filepath.Join(b.dir, "workspaces"), Layers: b.layers}); err != nil {
		t.Fatal(err)
	}
	return b
}

// jail is a backend's part of the bench.
func (b *bench) jail() jail.Config {
	return jail.Config{Dir: b.run, Layers: b.layers, Workspaces: b.workspaces}
}

// tested is a backend that boots guests ahead too.
type tested interface {
	sandbox.Backend
	Close() error
}

// suite runs the contract against guests that are started, and against guests that
// were booted ahead and are claimed: of these, the cases that depend on it.
func (b *bench) suite(t *testing.T, backend tested, f sandboxtest.Fixture) {
	for _, way := range []struct {
		name    string
		backend sandbox.Backend
	}{{"started", backend}, {"claimed", sandboxtest.Ahead{Backend: backend}}} {
		t.Run(way.name, func(t *testing.T) {
			if way.name == "claimed" {
				tier.AnyUser(t) // the cases of ahead claim guests as each user
			}
			sandboxtest.Run(t, func(*testing.T) sandboxtest.Fixture {
				f := b.fixture(way.backend, f)
				f.Claimed = way.name == "claimed"
				return f
			})
		})
	}
}

// fixture adds what every suite over a bench has.
func (b *bench) fixture(backend sandbox.Backend, f sandboxtest.Fixture) sandboxtest.Fixture {
	f.Backend, f.Layers, f.Store, f.Workspaces = backend, []layer.Digest{b.tree}, b.layers, b.workspaces
	f.Leftovers = func(id api.SandboxID) []string { return leftovers(b.run, id) }
	return f
}

// closed closes a backend after the test, which is when everything in it has ended.
func closed(t *testing.T, b tested) {
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
}

func TestContainer(t *testing.T) {
	bench := newBench(t)
	b, err := container.New(bench.jail())
	if err != nil {
		t.Fatal(err)
	}
	closed(t, b)
	if a, ok := b.Probe(t.Context()).Has(api.CapStart); !ok {
		t.Skipf("this host cannot run containers: %s; %s", a.Reason, a.Fix)
	}
	bench.suite(t, b, sandboxtest.Fixture{})
}

// leftovers looks for a sandbox's id wherever a backend could leave something:
// directories, cgroups, mounts, the command lines and environments of processes.
func leftovers(run string, id api.SandboxID) []string {
	var left []string
	if _, err := os.Lstat(filepath.Join(run, string(id))); err == nil {
		left = append(left, "directory "+string(id))
	}
	_ = filepath.WalkDir("/sys/fs/cgroup", func(p string, d fs.DirEntry, err error) error {
		if err == nil && strings.Contains(d.Name(), string(id)) {
			left = append(left, "cgroup "+p)
		}
		return nil // what vanishes while we look is not left
	})
	if b, err := os.ReadFile("/proc/self/mountinfo"); err == nil && strings.Contains(string(b), string(id)) {
		left = append(left, "a mount in the host's namespace")
	}
	return left
}
