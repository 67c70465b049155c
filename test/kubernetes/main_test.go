package kubernetes

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/backend/kubernetes"
	"hortus.dev/internal/backend/remote"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/workspace"
)

// bench is what a backend is tested on: a data directory of its own.
type bench struct {
	run        string
	cfg        kubernetes.Config
	internet   bool
	layers     *layer.Store
	workspaces *workspace.Store
}

func newBench(t *testing.T, cfg kubernetes.Config) *bench {
	t.Helper()
	dir := t.TempDir()
	b := &bench{run: filepath.Join(dir, "run"), cfg: cfg}
	b.cfg.Dir = b.run
	var err error
	if b.layers, err = layer.New(layer.Config{Dir: filepath.Join(dir, "layers")}); err != nil {
		t.Fatal(err)
	}
	if b.workspaces, err = workspace.Open(t.Context(), workspace.Config{Dir: filepath.Join(dir, "workspaces"), Layers: b.layers}); err != nil {
		t.Fatal(err)
	}
	// The address is the same for every daemon of the directory.
	l, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		t.Fatal(err)
	}
	b.cfg.Listen = l.Addr().String()
	b.cfg.GuestURL = "https://" + b.cfg.Listen
	l.Close()
	return b
}

// daemon is what a daemon has of the backend.
type daemon struct {
	*remote.Backend
	service *kubernetes.Service
}

// start is a daemon that begins. Close ends it.
func (b *bench) start(t *testing.T) *daemon {
	t.Helper()
	s, err := kubernetes.New(b.cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	r, err := remote.New(remote.Config{Service: s, Dir: b.run, Layers: b.layers, Workspaces: b.workspaces, Internet: b.internet})
	if err != nil {
		t.Fatal(err)
	}
	return &daemon{r, s}
}

// left lists what there is of a sandbox.
func (b *bench) left(t *testing.T, d *daemon, id api.SandboxID) (out []string) {
	t.Helper()
	if _, err := os.Lstat(filepath.Join(b.run, string(id))); err == nil {
		out = append(out, "directory "+string(id))
	}
	ids, err := d.Orphans(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range ids {
		if o == id {
			out = append(out, "pod of "+string(id))
		}
	}
	return out
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

// spec is a small sandbox.
func spec() sandbox.Spec {
	s := sandbox.Spec{ID: api.NewSandboxID(), Limits: api.DefaultLimits(), Env: map[string]string{"GIVEN": "value"}}
	s.Limits.CPUs, s.Limits.MemoryBytes = 0.5, 256<<20
	return s
}
