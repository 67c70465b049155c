package remote

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/backend/e2b"
	"hortus.dev/internal/backend/remote"
	"hortus.dev/internal/daemon"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/workspace"
	"hortus.dev/test/tools"
	"hortus.dev/test/world"
)

func TestMain(m *testing.M) { world.Main(m) }

// TestServices has the tests of sandboxes at a second Hortus, which they share: to start one takes seconds.
func TestServices(t *testing.T) {
	w, key := hortus(t)
	for _, c := range []struct {
		name string
		test func(t *testing.T, w *world.World, key string)
	}{{"conformance", conforms}, {"adopt", adopts}, {"workspace", workspaces}, {"lies", lies}, {"daytona", atDaytona}} {
		t.Run(c.name, func(t *testing.T) { c.test(t, w, key) })
	}
}

// bench is what a backend is tested on: stores of its own, and the small guest.
type bench struct {
	dir, run   string
	guest      *os.File
	layers     *layer.Store
	workspaces *workspace.Store
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{dir: t.TempDir()}
	b.run = filepath.Join(b.dir, "run")
	var err error
	if b.guest, err = os.Open(tools.Program(t, "./cmd/hortus-guest")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.guest.Close() })
	if b.layers, err = layer.New(layer.Config{Dir: filepath.Join(b.dir, "layers")}); err != nil {
		t.Fatal(err)
	}
	if b.workspaces, err = workspace.Open(t.Context(), workspace.Config{Dir: filepath.Join(b.dir, "workspaces"), Layers: b.layers}); err != nil {
		t.Fatal(err)
	}
	return b
}

// backend makes the backend of a service.
func (b *bench) backend(t *testing.T, s remote.Service, internet bool) *remote.Backend {
	t.Helper()
	r, err := remote.New(remote.Config{Service: s, Dir: b.run, Guest: b.guest, Layers: b.layers, Workspaces: b.workspaces, Internet: internet})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// hortus starts a second Hortus, whose sandboxes are containers, and returns it with a key.
func hortus(t *testing.T) (*world.World, string) {
	t.Helper()
	w := world.Open(t, world.Config{Config: daemon.Config{Usual: api.CreateSandbox{Isolation: "container"}}})
	w.Isolates(t, "container")
	return w, w.Key("remote", api.RoleUser).Secret
}

// keyed returns what looks a key up.
func keyed(key string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return key, nil }
}

// atHortus is the service of a second Hortus.
func atHortus(t *testing.T, url, key string) *e2b.Service {
	t.Helper()
	s, err := e2b.New(e2b.Config{APIURL: url, SandboxURL: url, Key: keyed(key)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// output runs a shell script and returns what it prints.
func output(t *testing.T, m sandbox.Machine, script string) string {
	t.Helper()
	c := envd.NewClient(envd.ClientConfig{Dial: m.Link().Open})
	defer c.Close()
	no := false
	ps, err := c.Start(t.Context(), &envd.StartRequest{Stdin: &no, Process: &envd.ProcessConfig{Cmd: "sh", Args: []string{"-c", script}}}, envd.StartOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer ps.Close()
	var out []byte
	for {
		ev, err := ps.Next()
		switch {
		case err != nil:
			t.Fatal(err)
		case ev.Data != nil:
			out = append(out, ev.Data.Stdout...)
		case ev.End != nil:
			return string(out)
		}
	}
}
