package story

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/test/tier"
)

// can skips a story where a backend lacks what it needs.
func (g *garden) can(backend string, needs ...api.Capability) {
	g.t.Helper()
	doctor := decode[admin.Doctor](g.t, g.must("doctor", "--json"))
	i := slices.IndexFunc(doctor.Backends, func(b api.BackendReport) bool { return b.Backend == backend })
	if i < 0 {
		g.t.Skipf("this build does not include backend %s", backend)
	}
	for _, c := range needs {
		if a, ok := doctor.Backends[i].Has(c); !ok {
			g.t.Skipf("%s has no %s here: %s", backend, c, a.Reason)
		}
	}
}

// canSaveMemory skips a story where memory cannot be saved.
func (g *garden) canSaveMemory() {
	g.t.Helper()
	g.can("gvisor", api.CapStart, api.CapCheckpoint)
}

// TestOutputOverSaves: what a command writes as fast as it can arrives whole and
// once, whatever is saved meanwhile.
func TestOutputOverSaves(t *testing.T) {
	tier.Soak(t) // megabytes of output; test/conformance saves while a command prints
	tier.AnyUser(t)
	t.Parallel()
	g := newGarden(t)
	g.unpooled()
	g.canSaveMemory()
	id := strings.TrimSpace(g.must("sandbox", "create", "--isolation", "gvisor", "--ttl", "10m"))
	const last = 3_000_000
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	defer cancel()
	cmd := g.command(ctx, "sandbox", "exec", id, "--", "sh", "-c", fmt.Sprintf("seq 1 %d; exit 5", last))
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		g.must("sandbox", "snapshot", "--quiet", id)
	}
	g.must("sandbox", "fork", "--quiet", id)
	if code := exitOf(t, cmd.Wait()); code != 5 {
		t.Errorf("exit %d: %s", code, &complaint)
	}
	var want bytes.Buffer
	for i := range last {
		fmt.Fprintln(&want, i+1)
	}
	if !bytes.Equal(out.Bytes(), want.Bytes()) {
		t.Errorf("%d bytes came of %d, or others", out.Len(), want.Len())
	}
}

// TestDaemonKilledWhileSaving kills the daemon at random instants while a sandbox is
// saved, forked, paused to disk, resumed and started from a snapshot, and lets the next
// command's daemon recover. What is offered afterwards works: a paused sandbox has all
// of its memory, and so has everything that a snapshot which is ready starts. What ran
// continues, also where a pause had begun that nobody completed: no sandbox is lost.
// Nothing else is left. HORTUS_TEST_KILLS=100 kills as often as that.
func TestDaemonKilledWhileSaving(t *testing.T) {
	tier.Soak(t) // kills; TestDaemonKilledAdopts kills a daemon with sandboxes
	tier.AnyUser(t)
	t.Parallel()
	g := newGarden(t)
	g.canSaveMemory()
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 1))
	t.Logf("seed %d", seed)
	fell := map[string]int{}
	n := killCount(t, 2, 10)
	base := "" // a snapshot that is ready, to start from
	for i := range n {
		id := g.remembers(i)
		var c *started
		op := []string{"snapshot", "fork", "pause", "resume", "restore"}[i%5]
		switch op {
		case "snapshot":
			c = g.start("sandbox", "snapshot", id)
		case "fork":
			c = g.start("sandbox", "fork", id, "--count", "2")
		case "pause":
			c = g.start("sandbox", "pause", "--to-disk", id)
		case "resume":
			g.must("sandbox", "pause", "--to-disk", id)
			c = g.start("sandbox", "resume", id)
		case "restore":
			if base == "" {
				base = strings.TrimSpace(g.must("sandbox", "snapshot", "--quiet", g.remembers(-1)))
			}
			c = g.start("sandbox", "create", "--template", base)
		}
		g.killWithin(t, random, 200*time.Millisecond)
		c.ends()
		row := decode[api.Sandbox](t, g.must("sandbox", "show", "--json", id))
		fell[op+", then "+string(row.State)]++
		switch {
		case row.State == api.SandboxPaused:
			g.must("sandbox", "resume", id)
			g.recalls(id, i)
		case row.State == api.SandboxRunning:
			g.recalls(id, i)
		default:
			t.Errorf("kill %d (%s): the sandbox is %s: %q", i, op, row.State, row.Reason)
		}
		g.offered(i, base)
		for _, b := range decode[[]api.Sandbox](t, g.must("sandbox", "ls", "--json")) {
			g.must("sandbox", "kill", string(b.ID))
		}
		g.idle()
		until(t, fmt.Sprintf("kill %d (%s): nothing is left", i, op), func() string {
			left := g.leftoversAlive()
			for _, p := range g.orphans() {
				left = append(left, "process "+p.String())
			}
			return strings.Join(left, "\n")
		})
		if t.Failed() {
			t.Fatalf("stopped after kill %d; the daemon's log:\n%s", i, g.log())
		}
	}
	var lines []string
	for how, n := range fell {
		lines = append(lines, fmt.Sprintf("%3d %s", n, how))
	}
	slices.Sort(lines)
	t.Logf("%d kills fell\n%s", n, strings.Join(lines, "\n"))
}

// remembers makes a sandbox with a process that has a number in its memory alone.
func (g *garden) remembers(n int) string {
	g.t.Helper()
	id := strings.TrimSpace(g.must("sandbox", "create", "--isolation", "gvisor", "--ttl", "10m"))
	g.remember(id, n)
	return id
}

// remember starts that process in a sandbox.
func (g *garden) remember(id string, n int) {
	g.t.Helper()
	g.must("sandbox", "exec", id, "--", "sh", "-c", fmt.Sprintf(
		`(n=%d; mkfifo ask answer; while read x <ask; do echo $n >answer; done) >/dev/null 2>&1 </dev/null & until [ -p answer ]; do sleep 0.05; done`, n))
}

// recalls asks that process.
func (g *garden) recalls(id string, n int) {
	g.t.Helper()
	out := g.must("sandbox", "exec", id, "--", "sh", "-c", "echo >ask; cat answer")
	if got := strings.TrimSpace(out); got != strconv.Itoa(n) {
		g.t.Errorf("sandbox %s remembers %q, not %d", id, got, n)
	}
}

// offered looks at every snapshot that there is: it is ready and starts a sandbox that
// remembers n, or it is final; and on the disk is what is ready and no more. All but
// keep are removed.
func (g *garden) offered(n int, keep string) {
	g.t.Helper()
	disk := map[string]bool{}
	entries, err := os.ReadDir(filepath.Join(g.dir, "snapshots"))
	if err != nil {
		g.t.Fatal(err)
	}
	for _, e := range entries {
		disk[e.Name()] = true
	}
	for _, s := range decode[[]api.Snapshot](g.t, g.must("snapshot", "ls", "--all", "--json")) {
		switch {
		case s.State.Final():
			continue
		case s.State != api.SnapshotReady || !disk[string(s.ID)]:
			g.t.Errorf("snapshot %s is %s, on the disk: %t", s.ID, s.State, disk[string(s.ID)])
		}
		delete(disk, string(s.ID))
		if string(s.ID) == keep {
			continue
		}
		g.recalls(strings.TrimSpace(g.must("sandbox", "create", "--quiet", "--template", string(s.ID))), n)
		g.must("snapshot", "rm", string(s.ID))
	}
	for name := range disk {
		// The daemon that lives has a place for what it needs for a moment.
		rest, err := os.ReadDir(filepath.Join(g.dir, "snapshots", name))
		if err != nil || len(rest) > 0 || !strings.HasPrefix(name, "transient-") {
			g.t.Errorf("left of snapshots: %s with %v, %v", name, rest, err)
		}
	}
}
