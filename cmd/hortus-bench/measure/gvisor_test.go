package measure

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"hortus.dev/api"
	"hortus.dev/cmd/hortus-bench/figure"
	"hortus.dev/internal/backend/gvisor"
	"hortus.dev/internal/daemon"
	"hortus.dev/internal/platform/gvisorbuild"
	"hortus.dev/test/tier"
	"hortus.dev/test/tools"
)

// newGvisor opens a daemon whose sandboxes can be saved, with a pool.
func newGvisor(t *testing.T) *Bench {
	t.Helper()
	programs, dir := tools.Dir(t), t.TempDir()
	guest := gvisorbuild.GuestPath(filepath.Join(dir, "bin")) // this test may be linked with the C library
	data, err := os.ReadFile(filepath.Join(programs, tools.Guest))
	if err := errors.Join(err, os.MkdirAll(filepath.Dir(guest), 0o755), os.WriteFile(guest, data, 0o755)); err != nil {
		t.Fatal(err)
	}
	b := newBench(t, daemon.Config{DataDir: dir, Runsc: filepath.Join(programs, gvisor.RunscName), Home: os.Getenv("HOME"), Pool: 1, Usual: api.CreateSandbox{Isolation: "gvisor"}})
	if a, ok := b.has(t.Context(), "gvisor", api.CapStart); !ok {
		tools.Cannot(t, "this host cannot run gvisor: %s; %s", a.Reason, a.Fix)
	}
	return b
}

// TestSaved takes what only sandboxes with a kernel of their own can do, and looks for
// what it left.
func TestSaved(t *testing.T) {
	tier.Soak(t) // half a minute
	ownTemp(t)
	b := newGvisor(t)
	for only, want := range map[string]map[string]int{
		"save":    {"save, 10 MB": 1, "save, paused, 10 MB": 1, "restore to first exec, 10 MB": 1, "pause to disk, 10 MB": 1, "resume to first exec, 10 MB": 1},
		"fork":    {"fork to first exec, 10 MB, 1 child": 1, "fork to first exec, 10 MB, 5 children": 5, "fork until all ran, 10 MB, 20 children": 1, "fork, parent paused, 10 MB, 20 children": 1},
		"density": {"density, make a child, 10 MB": 1, "density, command, 10 MB": 1, "density, write 1 MB, 10 MB": 1, "density, write 1 MB, 10 MB, copied": 1},
		"warm":    {"create to first result, warm template, cold": 1, "create to first result, warm template, pooled": 1, "create to first result, interpreter started, pooled": 1},
		"runsc": {"rival: runsc run": 1, "rival: runsc exec": 1, "rival: runsc checkpoint, restore, exec, 100 MB": 1,
			"fork to first exec, 100 MB, 1 child": 1},
	} {
		t.Run(only, func(t *testing.T) {
			got := map[string]figure.Row{}
			err := b.Run(t.Context(), Request{N: 1, Only: []string{only}, Backends: []string{"gvisor"}, HeldMB: heldIn(only)}, func(r figure.Row) { got[r.Name] = r }, func(figure.Progress) {})
			if err != nil {
				t.Fatal(err)
			}
			if r := got["rival: runsc"]; r.Note != "" {
				t.Skip(r.Note)
			}
			for name, n := range want {
				if r := got[name]; r.N != n || r.P50MS <= 0 {
					t.Errorf("%s: %+v; want %d samples", name, r, n)
				}
			}
			nothingLeft(t, b)
		})
	}
}

// TestSavedCanceled: nothing is left of these either when they are cut short.
func TestSavedCanceled(t *testing.T) {
	tier.Soak(t) // half a minute
	ownTemp(t)
	b := newGvisor(t)
	for _, only := range []string{"save", "fork", "density", "warm", "runsc"} {
		t.Run(only, func(t *testing.T) {
			cancelledRun(t, b, only, "gvisor")
			nothingLeft(t, b)
		})
	}
}

// ownTemp creates for the test a directory for temporary files alone, which sandboxes' ids can
// reach.
func ownTemp(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", dir)
}

// heldIn are the MB held in the sandboxes of a measurement; nil for one that holds none.
func heldIn(measurement string) []int {
	if slices.Contains([]string{"save", "fork", "density"}, measurement) {
		return []int{10}
	}
	return nil
}

// TestChildren: a fork is measured of the numbers of children that were requested, and no other.
func TestChildren(t *testing.T) {
	tier.Soak(t) // TestWorkIsDone runs the measurements
	ownTemp(t)
	b := newGvisor(t)
	var got []string
	req := Request{N: 1, Only: []string{"fork"}, Backends: []string{"gvisor"}, HeldMB: []int{20}, Children: []int{2}}
	if err := b.Run(t.Context(), req, func(r figure.Row) { got = append(got, r.Name) }, func(figure.Progress) {}); err != nil {
		t.Fatal(err)
	}
	want := []string{"fork to first exec", "fork, parent paused", "fork until all ran", "fork to first exec, copied",
		"memory of idle children", "memory of idle children, programs"}
	for i := range want {
		want[i] += ", 20 MB, 2 children"
	}
	if !slices.Equal(got, want) {
		t.Errorf("rows %q, want %q", got, want)
	}
	nothingLeft(t, b)
}
