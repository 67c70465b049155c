package process_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/backend/process"
	"hortus.dev/internal/guest"
	"hortus.dev/internal/guest/birth"
	"hortus.dev/internal/sandbox"
	"hortus.dev/test/reaper"
	"hortus.dev/test/sandboxtest"
)

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == birth.Argv0 {
		os.Exit(guest.Main())
	}
	os.Exit(reaper.Run(m.Run))
}

func newBackend(t *testing.T, dir string) *process.Backend {
	t.Helper()
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { self.Close() })
	b, err := process.New(process.Config{Dir: dir, Guest: self, Path: os.Getenv("PATH")})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestConformance(t *testing.T) {
	sandboxtest.Run(t, func(t *testing.T) sandboxtest.Fixture {
		dir := t.TempDir()
		return sandboxtest.Fixture{
			Backend: newBackend(t, dir),
			Leftovers: func(id api.SandboxID) []string {
				left, _ := filepath.Glob(filepath.Join(dir, string(id)))
				// Whatever carries the id in its environment or arguments.
				out, _ := exec.Command("sh", "-c", "grep -lsa 'HORTUS_SANDBOX="+string(id)+"' /proc/[0-9]*/environ || true").Output()
				return append(left, strings.Fields(string(out))...)
			},
		}
	})
}

// TestReclaim kills what another process left running.
func TestReclaim(t *testing.T) {
	dir := t.TempDir()
	b := newBackend(t, dir)
	spec := sandbox.Spec{ID: api.NewSandboxID(), Limits: api.DefaultLimits(), Egress: sandbox.Egress{Host: true}}
	m, err := b.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	// A second backend over the same directory knows nothing of the machine.
	other := newBackend(t, dir)
	ids, err := other.Orphans(t.Context())
	if err != nil || len(ids) != 1 || ids[0] != spec.ID {
		t.Errorf("orphans %q, %v", ids, err)
	}
	proof, err := other.Reclaim(t.Context(), spec.ID)
	if err != nil || proof.Killed < 1 || proof.Left != 0 {
		t.Errorf("reclaimed %+v, %v", proof, err)
	}
	<-m.Done()
	if c := m.Cause(); !strings.Contains(c, "killed") {
		t.Errorf("cause %q", c)
	}
	if _, err := m.Kill(context.Background()); err != nil {
		t.Errorf("kill after the fact: %v", err)
	}
	if _, err := other.Reclaim(t.Context(), "../../etc"); api.KindOf(err) != api.KindInvalid {
		t.Errorf("a path as an id: %v", err)
	}
}
