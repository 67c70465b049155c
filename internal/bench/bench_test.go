package bench_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/internal/backend/process"
	"hortus.dev/internal/bench"
	"hortus.dev/internal/bench/load"
	"hortus.dev/internal/guest"
	"hortus.dev/internal/guest/birth"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/manager"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/store"
	"hortus.dev/internal/store/event"
	"hortus.dev/internal/store/sqlite"
	"hortus.dev/test/patience"
	"hortus.dev/test/reaper"
)

// TestMain lets the test binary be the guest too.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == birth.Argv0 {
		os.Exit(guest.Main())
	}
	if filepath.Base(os.Args[0]) == load.Argv0 {
		os.Exit(load.Main())
	}
	os.Exit(reaper.Run(m.Run))
}

type templates struct{}

func (templates) Layers(context.Context, string) ([]layer.Digest, error) { return nil, nil }

// newManager makes a manager over the real store and the process backend, which
// every host has.
func newManager(t *testing.T) *manager.Manager {
	t.Helper()
	dir := t.TempDir()
	db, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(dir, "db"), Ahead: true})
	if err != nil {
		t.Fatal(err)
	}
	owner := api.NewOwnerID()
	if err := db.InsertOwner(t.Context(), store.Owner{ID: owner, Host: "here", LockPath: "/x", PID: 1, StartedAt: time.Now()}); err != nil {
		t.Fatal(err)
	}
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	b, err := process.New(process.Config{Dir: filepath.Join(dir, "run"), Guest: self, Path: os.Getenv("PATH")})
	if err != nil {
		t.Fatal(err)
	}
	log := event.NewLog(event.Config{Store: db})
	m := manager.New(manager.Config{Owner: owner, Backends: []sandbox.Backend{b}, Templates: templates{}, Rows: db, Log: log})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience.Of(time.Minute))
		defer cancel()
		if err := m.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
		log.Close()
		db.Close()
		self.Close()
	})
	return m
}

// TestWorkIsDone counts, in the manager's own rows, what each measurement really
// did: so many sandboxes that ran a command to its end and were destroyed.
func TestWorkIsDone(t *testing.T) {
	const n = 4
	for _, test := range []struct {
		only      string
		sandboxes int // created and destroyed
		execs     int // recorded commands
		rows      map[string]int
	}{
		{"exec", 1, n + 10, map[string]int{"native fork+exec": n, "exec round trip, guest wire": n, "exec round trip, recorded": n}},
		// One more stays, and runs its first command and one in each turn.
		{"create", 1 + 3 + 1, 2*(1+3) + 1, map[string]int{"create to first exec, cold": 1, "create to first exec, cold, of an exec": 1, "destroy": 1}},
		{"idle", 20, 20, map[string]int{"idle memory per sandbox": 20}},
		{"burst", 1 + 2, 1 + 2, map[string]int{"burst of 2, until all ran, cold": 1, "burst of 2, each, cold": 2}},
		{"growth", 2 + 5*n, 2 + 5*n, map[string]int{"create, run, destroy, cold": 5 * n, "growth, descriptors, cold": 5 * n, "growth, answers, cold": 5 * n}},
		{"rivals", 1 + 3, 1 + 3, map[string]int{"create, run, destroy, cold": 1}},
	} {
		t.Run(test.only, func(t *testing.T) {
			m := newManager(t)
			counted := 0
			b := &bench.Bench{Sandboxes: m, Counters: []bench.Counter{
				{Name: "answers", Count: func(context.Context) (float64, error) { counted++; return float64(counted), nil }},
			}}
			got := map[string]admin.BenchRow{}
			var last admin.BenchProgress
			err := b.Run(t.Context(), admin.BenchRequest{N: n, Only: []string{test.only}, Backends: []string{"process"}},
				func(r admin.BenchRow) { got[r.Name] = r }, func(p admin.BenchProgress) { last = p })
			if err != nil {
				t.Fatal(err)
			}
			all, err := m.List(t.Context(), true)
			if err != nil {
				t.Fatal(err)
			}
			execs := 0
			for _, s := range all {
				if s.State != api.SandboxEnded || s.Reason != api.CauseKilled {
					t.Errorf("sandbox %s is %s (%s)", s.ID, s.State, s.Reason)
				}
				xs, err := m.Execs(t.Context(), s.ID)
				if err != nil {
					t.Fatal(err)
				}
				for _, x := range xs {
					if x.State != api.ExecExited || x.Exit.Code != 0 || strings.Join(x.Args, " ") != "/bin/true" {
						t.Errorf("command %q is %s, exit %+v", x.Args, x.State, x.Exit)
					}
				}
				execs += len(xs)
			}
			if len(all) != test.sandboxes || execs != test.execs {
				t.Errorf("%d sandboxes and %d commands; want %d and %d", len(all), execs, test.sandboxes, test.execs)
			}
			for name, n := range test.rows {
				if r, ok := got[name]; !ok || r.N != n {
					t.Errorf("row %q: %+v; want %d samples", name, r, n)
				}
			}
			if last.Measure != test.only || last.Done != last.Of || last.Of == 0 {
				t.Errorf("the last progress was %+v", last)
			}
		})
	}
}

// TestEveryRivalHasARow: one that is absent has a reason and no figures.
func TestEveryRivalHasARow(t *testing.T) {
	b := &bench.Bench{Sandboxes: newManager(t)}
	var got []admin.BenchRow
	err := b.Run(t.Context(), admin.BenchRequest{N: 1, Only: []string{"rivals"}}, func(r admin.BenchRow) { got = append(got, r) }, func(admin.BenchProgress) {})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"unshare", "bwrap", "runc", "docker"} {
		i := slices.IndexFunc(got, func(r admin.BenchRow) bool { return r.Name == "rival: "+name })
		if i < 0 {
			t.Errorf("no row of %s", name)
			continue
		}
		switch r := got[i]; {
		case r.Note == "":
			t.Errorf("%s has no note", name)
		case r.N == 0 && (r.P50MS != 0 || !strings.HasPrefix(r.Note, name+": ")):
			t.Errorf("absent without a reason: %+v", r)
		case r.N > 0 && (r.P50MS <= 0 || r.Ratio <= 0 || r.Baseline != "create, run, destroy, cold"):
			t.Errorf("not compared: %+v", r)
		}
	}
}

func TestRefuses(t *testing.T) {
	b := &bench.Bench{Sandboxes: newManager(t)}
	for _, req := range []admin.BenchRequest{
		{N: -1}, {N: 100_001}, {Only: []string{"exec", "nope"}}, {Backends: []string{"nope"}},
		{HeldMB: []int{10, 0}}, {HeldMB: []int{65_537}}, {HeldMB: []int{10, 20, 10}}, {HeldMB: make([]int, 17)},
		{HeldMB: []int{10}, Only: []string{"exec", "create"}},
		{Children: []int{-1}}, {Children: []int{101}}, {Children: []int{5, 5}}, {Children: []int{5}, Only: []string{"save"}},
	} {
		err := b.Run(t.Context(), req, func(r admin.BenchRow) { t.Errorf("%+v: row %+v", req, r) }, func(admin.BenchProgress) {})
		if api.KindOf(err) != api.KindInvalid {
			t.Errorf("%+v: %v", req, err)
		}
	}
}

// TestCannotBeTaken: what a backend cannot do is a row without figures that says why.
func TestCannotBeTaken(t *testing.T) {
	b := &bench.Bench{Sandboxes: newManager(t)}
	for only, name := range map[string]string{
		"save": "save", "fork": "fork to first exec", "warm": "create to first result, warm template", "runsc": "rival: runsc",
	} {
		var got []admin.BenchRow
		err := b.Run(t.Context(), admin.BenchRequest{N: 1, Only: []string{only}, Backends: []string{"process"}}, func(r admin.BenchRow) { got = append(got, r) }, func(admin.BenchProgress) {})
		if err != nil || len(got) != 1 || got[0].Name != name || got[0].N != 0 || got[0].Note == "" {
			t.Errorf("%s: %+v, %v", only, got, err)
		}
	}
}

// TestLoopInside: the floor of an exec is taken in the sandbox itself, and compared.
func TestLoopInside(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip(err)
	}
	b := &bench.Bench{Sandboxes: newManager(t)}
	got := map[string]admin.BenchRow{}
	err := b.Run(t.Context(), admin.BenchRequest{N: 2, Only: []string{"exec"}, Backends: []string{"process"}}, func(r admin.BenchRow) { got[r.Name] = r }, func(admin.BenchProgress) {})
	if err != nil {
		t.Fatal(err)
	}
	inside, native, of := got["fork+exec loop inside"], got["fork+exec loop, native"], got["exec round trip, recorded, of its loop"]
	if inside.N != 10 || inside.P50MS <= 0 || native.N != 10 || inside.BaselineP50MS != native.P50MS || of.BaselineP50MS != inside.P50MS || of.Ratio <= 0 {
		t.Errorf("inside %+v, native %+v, compared %+v", inside, native, of)
	}
}

// TestFiles: the jobs do what they are called, in a sandbox and beside it.
func TestFiles(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for _, program := range []string{"python3", "git", "tar", "find"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(err)
		}
	}
	m := newManager(t)
	b := &bench.Bench{Sandboxes: m}
	got := map[string]admin.BenchRow{}
	err := b.Run(t.Context(), admin.BenchRequest{N: 1, Only: []string{"files"}, Backends: []string{"process"}}, func(r admin.BenchRow) { got[r.Name] = r }, func(admin.BenchProgress) {})
	if err != nil {
		t.Fatal(err)
	}
	if r, ok := got["files: own disk"]; ok {
		t.Fatal(r.Note)
	}
	for _, job := range []string{"git status of 500", "git clone --shared of 500", "tar x of 500", "find of 500", "read all of 500", "rm -r of 500", "Python import"} {
		native, own := got["files: "+job+", native"], got["files: "+job+", own disk"]
		if native.N != 1 || own.N != 1 || own.Backend != "process" || own.BaselineP50MS != native.P50MS {
			t.Errorf("%s: native %+v, own disk %+v", job, native, own)
		}
	}
	if n := m.Alive(); n != 0 {
		t.Errorf("%d sandboxes are alive", n)
	}
	if left, _ := filepath.Glob(filepath.Join(os.TempDir(), "hortus-bench-*")); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// TestCanceled: nothing is left of a measurement that was cut short.
func TestCanceled(t *testing.T) {
	for _, only := range []string{"exec", "create", "idle", "growth", "rivals", "files"} {
		t.Run(only, func(t *testing.T) {
			t.Setenv("TMPDIR", t.TempDir())
			m := newManager(t)
			b := &bench.Bench{Sandboxes: m}
			cancelledRun(t, b, only, "process")
			if n := m.Alive(); n != 0 {
				t.Errorf("%d sandboxes are alive", n)
			}
		})
	}
}

// cancelledRun cancels a measurement when it first says how far it is.
func cancelledRun(t *testing.T, b *bench.Bench, only, backend string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := b.Run(ctx, admin.BenchRequest{N: 100, Only: []string{only}, Backends: []string{backend}, HeldMB: heldIn(only)}, func(admin.BenchRow) {}, func(admin.BenchProgress) { cancel() })
	if err == nil {
		t.Error("a cancelled run ended well")
	}
	if left, _ := filepath.Glob(filepath.Join(os.TempDir(), "hortus-bench-*")); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}
