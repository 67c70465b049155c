package bench_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/internal/backend/gvisor"
	"hortus.dev/internal/backend/jail"
	"hortus.dev/internal/bench"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/manager"
	"hortus.dev/internal/storage/image"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/snapshot"
	"hortus.dev/internal/store"
	"hortus.dev/internal/store/event"
	"hortus.dev/internal/store/sqlite"
	"hortus.dev/test/patience"
	"hortus.dev/test/tier"
	"hortus.dev/test/tools"
)

// newGvisor makes a bench over real sandboxes that can be saved, with a pool.
func newGvisor(t *testing.T) (*bench.Bench, func() []api.Snapshot) {
	t.Helper()
	programs := tools.Dir(t)
	dir := t.TempDir()
	layers, err := layer.Open(filepath.Join(dir, "layers"))
	if err != nil {
		t.Fatal(err)
	}
	tree, err := image.NewHost(image.Config{Store: layers, Home: os.Getenv("HOME"), Path: os.Getenv("PATH")}).Prepare(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b, err := gvisor.New(gvisor.Config{Tools: programs, Version: "test", GuestDigest: "test", Jail: jail.Config{
		Guest: filepath.Join(programs, tools.Guest), Dir: filepath.Join(dir, "run"), Layers: layers,
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	if a, ok := b.Probe(t.Context()).Has(api.CapStart); !ok {
		tools.Cannot(t, "this host cannot run gvisor: %s; %s", a.Reason, a.Fix)
	}
	db, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(dir, "db"), Ahead: true})
	if err != nil {
		t.Fatal(err)
	}
	owner := api.NewOwnerID()
	if err := db.InsertOwner(t.Context(), store.Owner{ID: owner, Host: "here", LockPath: "/x", PID: 1, StartedAt: time.Now()}); err != nil {
		t.Fatal(err)
	}
	snapshots, err := snapshot.Open(snapshot.Config{Dir: filepath.Join(dir, "snapshots"), Rows: db, Owner: owner, Layers: layers})
	if err != nil {
		t.Fatal(err)
	}
	log := event.NewLog(event.Config{Store: db})
	m := manager.New(manager.Config{
		Owner: owner, Backends: []sandbox.Backend{b}, Templates: host(tree.Digest), Rows: db, Log: log, Snapshots: snapshots, Pool: 1,
	})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience.Of(time.Minute))
		defer cancel()
		if err := m.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
		log.Close()
		db.Close()
	})
	return &bench.Bench{Sandboxes: m, Runsc: filepath.Join(programs, gvisor.RunscName)}, func() []api.Snapshot {
		all, err := m.Snapshots(t.Context(), false)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
}

type host layer.Digest

func (h host) Layers(context.Context, string) ([]layer.Digest, error) {
	return []layer.Digest{layer.Digest(h)}, nil
}

// TestSaved takes what only sandboxes with a kernel of their own can do, and looks for
// what it left.
func TestSaved(t *testing.T) {
	tier.Soak(t) // half a minute
	ownTemp(t)
	b, snapshots := newGvisor(t)
	for only, want := range map[string]map[string]int{
		"save":    {"save, 10 MB": 1, "save, paused, 10 MB": 1, "restore to first exec, 10 MB": 1, "pause to disk, 10 MB": 1, "resume to first exec, 10 MB": 1},
		"fork":    {"fork to first exec, 10 MB, 1 child": 1, "fork to first exec, 10 MB, 5 children": 5, "fork until all ran, 10 MB, 20 children": 1, "fork, parent paused, 10 MB, 20 children": 1},
		"density": {"density, make a child, 10 MB": 1, "density, command, 10 MB": 1, "density, write 1 MB, 10 MB": 1, "density, write 1 MB, 10 MB, copied": 1},
		"warm":    {"create to first result, warm template, cold": 1, "create to first result, warm template, pooled": 1, "create to first result, interpreter started, pooled": 1},
		"runsc": {"rival: runsc run": 1, "rival: runsc exec": 1, "rival: runsc checkpoint, restore, exec, 100 MB": 1,
			"fork to first exec, 100 MB, 1 child": 1},
	} {
		t.Run(only, func(t *testing.T) {
			got := map[string]admin.BenchRow{}
			err := b.Run(t.Context(), admin.BenchRequest{N: 1, Only: []string{only}, Backends: []string{"gvisor"}, HeldMB: heldIn(only)}, func(r admin.BenchRow) { got[r.Name] = r }, func(admin.BenchProgress) {})
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
			nothingLeft(t, b, snapshots)
		})
	}
}

// TestSavedCanceled: nothing is left of these either when they are cut short.
func TestSavedCanceled(t *testing.T) {
	tier.Soak(t) // half a minute
	ownTemp(t)
	b, snapshots := newGvisor(t)
	for _, only := range []string{"save", "fork", "density", "warm", "runsc"} {
		t.Run(only, func(t *testing.T) {
			cancelledRun(t, b, only, "gvisor")
			nothingLeft(t, b, snapshots)
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

func nothingLeft(t *testing.T, b *bench.Bench, snapshots func() []api.Snapshot) {
	t.Helper()
	if n := b.Sandboxes.Alive(); n != 0 {
		t.Errorf("%d sandboxes are alive", n)
	}
	if left := snapshots(); len(left) != 0 {
		t.Errorf("snapshots are left: %+v", left)
	}
	if left, _ := filepath.Glob(filepath.Join(os.TempDir(), "hortus-bench-*")); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
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
	ownTemp(t)
	b, snapshots := newGvisor(t)
	var got []string
	req := admin.BenchRequest{N: 1, Only: []string{"fork"}, Backends: []string{"gvisor"}, HeldMB: []int{20}, Children: []int{2}}
	if err := b.Run(t.Context(), req, func(r admin.BenchRow) { got = append(got, r.Name) }, func(admin.BenchProgress) {}); err != nil {
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
	nothingLeft(t, b, snapshots)
}
