package conformance

import (
	"os"
	"path/filepath"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/backend/gvisor"
	"hortus.dev/internal/backend/jail"
	"hortus.dev/internal/image"
	"hortus.dev/internal/layer"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/sandboxtest"
	"hortus.dev/internal/workspace"
)

func TestGvisor(t *testing.T) {
	tools := os.Getenv("HORTUS_TOOLS")
	if tools == "" {
		t.Skip("no tools")
	}
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
	b, err := gvisor.New(gvisor.Config{Tools: tools, Version: "test", Jail: jail.Config{Guest: filepath.Join(tools, "guest", gvisor.GuestName), Dir: run, Layers: layers, Workspaces: workspaces, LeaseDir: filepath.Join(dir, "uids")}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	if a, ok := b.Probe(t.Context()).Has(api.CapStart); !ok {
		t.Skipf("this host cannot run gvisor: %s; %s", a.Reason, a.Fix)
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
