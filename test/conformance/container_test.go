package conformance

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/backend/container"
	"hortus.dev/internal/backend/jail/initns"
	"hortus.dev/internal/guest"
	"hortus.dev/internal/guest/birth"
	"hortus.dev/internal/image"
	"hortus.dev/internal/layer"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/sandboxtest"
	"hortus.dev/internal/workspace"
)

func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case initns.Argv0:
		os.Exit(initns.Become(guest.Main))
	case birth.Argv0:
		os.Exit(guest.Main())
	}
	os.Exit(m.Run())
}

func TestContainer(t *testing.T) {
	dir := t.TempDir()
	layers, err := layer.Open(filepath.Join(dir, "layers"))
	if err != nil {
		t.Fatal(err)
	}
	host := image.NewHost(image.Config{Store: layers, Home: os.Getenv("HOME"), Path: os.Getenv("PATH")})
	tree, err := host.Prepare(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	workspaces, err := workspace.Open(t.Context(), workspace.Config{Dir: filepath.Join(dir, "workspaces"), Layers: layers})
	if err != nil {
		t.Fatal(err)
	}
	run := filepath.Join(dir, "run")
	b, err := container.New(container.Config{Dir: run, Layers: layers, Workspaces: workspaces, LeaseDir: filepath.Join(dir, "uids")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	if a, ok := b.Probe(t.Context()).Has(api.CapStart); !ok {
		t.Skipf("this host cannot run containers: %s; %s", a.Reason, a.Fix)
	}
	for name, backend := range map[string]sandbox.Backend{"started": b, "claimed": sandboxtest.Ahead{Preparer: b}} {
		t.Run(name, func(t *testing.T) {
			sandboxtest.Run(t, func(*testing.T) sandboxtest.Fixture {
				return sandboxtest.Fixture{Backend: backend, Layers: []layer.Digest{tree.Digest}, Store: layers, Workspaces: workspaces, Leftovers: func(id api.SandboxID) []string {
					return leftovers(run, id)
				}}
			})
		})
	}
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
