package measure

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/cmd/hortus-bench/figure"
	"hortus.dev/cmd/hortus-bench/load"
	"hortus.dev/internal/backend/jail/initns"
	"hortus.dev/internal/daemon"
	"hortus.dev/internal/guest"
	"hortus.dev/internal/guest/birth"
	"hortus.dev/test/reaper"
	"hortus.dev/test/tier"
)

// TestMain lets the test binary be the guest and the load too.
func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case initns.Argv0:
		os.Exit(initns.Become(guest.Main))
	case birth.Argv0:
		os.Exit(guest.Main())
	case load.Argv0:
		os.Exit(load.Main())
	}
	os.Exit(reaper.Run(m.Run))
}

// newBench opens a daemon without a pool: of its backends the tests use "process", which every host has.
func newBench(t *testing.T, cfg daemon.Config) *Bench {
	t.Helper()
	cfg.Path = os.Getenv("PATH")
	if cfg.DataDir == "" {
		cfg.DataDir = t.TempDir()
	}
	if cfg.Pool == 0 {
		cfg.Pool = -1
	}
	b, err := Open(t.Context(), Config{Daemon: cfg})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return b
}

// measured takes measurements of the backend "process", and returns the rows by name.
func measured(t *testing.T, b *Bench, req Request) map[string]figure.Row {
	t.Helper()
	req.Backends = []string{"process"}
	got := map[string]figure.Row{}
	if err := b.Run(t.Context(), req, func(r figure.Row) { got[r.Name] = r }, func(figure.Progress) {}); err != nil {
		t.Fatal(err)
	}
	return got
}

// TestWorkIsDone counts, in the manager's own rows, what each measurement really
// did: so many sandboxes that ran a command to its end and were destroyed.
func TestWorkIsDone(t *testing.T) {
	const n = 4
	b := newBench(t, daemon.Config{})
	counted := 0
	b.counters = append(b.counters, counter{Name: "answers", Count: func(context.Context) (float64, error) { counted++; return float64(counted), nil }})
	earlier := map[api.SandboxID]bool{}
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
			if test.only != "create" {
				tier.Soak(t) // seconds each
			}
			got := map[string]figure.Row{}
			var last figure.Progress
			err := b.Run(t.Context(), Request{N: n, Only: []string{test.only}, Backends: []string{"process"}},
				func(r figure.Row) { got[r.Name] = r }, func(p figure.Progress) { last = p })
			if err != nil {
				t.Fatal(err)
			}
			all, err := b.Sandboxes.Sandboxes.List(t.Context(), true)
			if err != nil {
				t.Fatal(err)
			}
			all = slices.DeleteFunc(all, func(s api.Sandbox) bool { return earlier[s.ID] })
			execs := 0
			for _, s := range all {
				earlier[s.ID] = true
				if s.State != api.SandboxEnded || s.Reason != api.CauseKilled {
					t.Errorf("sandbox %s is %s (%s)", s.ID, s.State, s.Reason)
				}
				xs, err := b.Sandboxes.Guests.Execs(t.Context(), s.ID)
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
	tier.Soak(t) // TestWorkIsDone runs measurements
	got := measured(t, newBench(t, daemon.Config{}), Request{N: 1, Only: []string{"rivals"}})
	for _, name := range []string{"unshare", "bwrap", "runc", "docker"} {
		switch r, ok := got["rival: "+name]; {
		case !ok:
			t.Errorf("no row of %s", name)
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
	for _, req := range []Request{
		{N: 0}, {N: -1}, {N: 100_001}, {N: 1, Only: []string{"exec", "nope"}},
		{N: 1, HeldMB: []int{10, 0}}, {N: 1, HeldMB: []int{65_537}}, {N: 1, HeldMB: []int{10, 20, 10}}, {N: 1, HeldMB: make([]int, 17)},
		{N: 1, HeldMB: []int{10}, Only: []string{"exec", "create"}},
		{N: 1, Children: []int{-1}}, {N: 1, Children: []int{101}}, {N: 1, Children: []int{5, 5}}, {N: 1, Children: []int{5}, Only: []string{"save"}},
	} {
		if err := req.Check(); api.KindOf(err) != api.KindInvalid || api.HintOf(err) == "" {
			t.Errorf("%+v: %v", req, err)
		}
	}
}

// TestCannotBeTaken: what a backend cannot do is a row without figures that says why.
func TestCannotBeTaken(t *testing.T) {
	b := newBench(t, daemon.Config{})
	for only, name := range map[string]string{
		"save": "save", "fork": "fork to first exec", "warm": "create to first result, warm template", "runsc": "rival: runsc",
	} {
		var got []figure.Row
		err := b.Run(t.Context(), Request{N: 1, Only: []string{only}, Backends: []string{"process"}}, func(r figure.Row) { got = append(got, r) }, func(figure.Progress) {})
		if err != nil || len(got) != 1 || got[0].Name != name || got[0].N != 0 || got[0].Note == "" {
			t.Errorf("%s: %+v, %v", only, got, err)
		}
	}
}

// TestLoopInside: the floor of an exec is taken in the sandbox itself, and compared.
func TestLoopInside(t *testing.T) {
	tier.Soak(t) // TestWorkIsDone runs measurements
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip(err)
	}
	got := measured(t, newBench(t, daemon.Config{}), Request{N: 2, Only: []string{"exec"}})
	inside, native, of := got["fork+exec loop inside"], got["fork+exec loop, native"], got["exec round trip, recorded, of its loop"]
	if inside.N != 10 || inside.P50MS <= 0 || native.N != 10 || inside.BaselineP50MS != native.P50MS || of.BaselineP50MS != inside.P50MS || of.Ratio <= 0 {
		t.Errorf("inside %+v, native %+v, compared %+v", inside, native, of)
	}
}

// TestFiles: the jobs do what they are called, in a sandbox and beside it.
func TestFiles(t *testing.T) {
	tier.Soak(t) // half a minute of programs; TestWorkIsDone runs measurements
	t.Setenv("TMPDIR", t.TempDir())
	for _, program := range []string{"python3", "git", "tar", "find"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(err)
		}
	}
	b := newBench(t, daemon.Config{})
	got := measured(t, b, Request{N: 1, Only: []string{"files"}})
	if r, ok := got["files: own disk"]; ok {
		t.Fatal(r.Note)
	}
	for _, job := range []string{"git status of 500", "git clone --shared of 500", "tar x of 500", "find of 500", "read all of 500", "rm -r of 500", "Python import"} {
		native, own := got["files: "+job+", native"], got["files: "+job+", own disk"]
		if native.N != 1 || own.N != 1 || own.Backend != "process" || own.BaselineP50MS != native.P50MS {
			t.Errorf("%s: native %+v, own disk %+v", job, native, own)
		}
	}
	nothingLeft(t, b)
}

// TestCanceled: nothing is left of a measurement that was cut short.
func TestCanceled(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	b := newBench(t, daemon.Config{})
	for _, only := range tier.First(2, []string{"create", "egress", "exec", "idle", "growth", "rivals", "files"}) {
		t.Run(only, func(t *testing.T) {
			cancelledRun(t, b, only, "process")
			nothingLeft(t, b)
		})
	}
}

// cancelledRun cancels a measurement when it first says how far it is.
func cancelledRun(t *testing.T, b *Bench, only, backend string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := b.Run(ctx, Request{N: 100, Only: []string{only}, Backends: []string{backend}, HeldMB: heldIn(only)}, func(figure.Row) {}, func(figure.Progress) { cancel() })
	if err == nil {
		t.Error("a cancelled run ended well")
	}
}

// nothingLeft looks for sandboxes, snapshots, and directories other than that of the bench.
func nothingLeft(t *testing.T, b *Bench) {
	t.Helper()
	if n := b.Sandboxes.Alive(); n != 0 {
		t.Errorf("%d sandboxes are alive", n)
	}
	if left, err := b.Sandboxes.Saver.Snapshots(t.Context(), false); err != nil || len(left) != 0 {
		t.Errorf("snapshots are left: %+v, %v", left, err)
	}
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), "hortus-bench-*"))
	if left = slices.DeleteFunc(left, func(dir string) bool { return dir == b.dir }); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}
