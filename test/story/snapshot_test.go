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
	"syscall"
	"testing"
	"time"

	"hortus.dev/api"
)

// canSaveMemory skips a story where memory cannot be saved.
func (g *garden) canSaveMemory() {
	g.t.Helper()
	doctor := decode[api.Doctor](g.t, g.must("doctor", "--json"))
	i := slices.IndexFunc(doctor.Backends, func(b api.BackendReport) bool { return b.Backend == "gvisor" })
	if i < 0 {
		g.t.Skip("this build has no backend gvisor")
	}
	for _, c := range []api.Capability{api.CapStart, api.CapCheckpoint} {
		if a, ok := doctor.Backends[i].Has(c); !ok {
			g.t.Skipf("gvisor has no %s here: %s", c, a.Reason)
		}
	}
}

// TestOutputOverSaves: what a command writes as fast as it can arrives whole and
// once, whatever is saved meanwhile.
func TestOutputOverSaves(t *testing.T) {
	g := newGarden(t)
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

// TestDaemonKilledWhilePausing kills the daemon at random instants while a sandbox
// is paused to disk and resumed. The next one finds it paused, with all of its
// memory, or lost with a reason; never twice, and nothing else is left.
func TestDaemonKilledWhilePausing(t *testing.T) {
	g := newGarden(t)
	g.canSaveMemory()
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 1))
	t.Logf("seed %d", seed)
	fell := map[api.SandboxState]int{}
	n := 12
	if testing.Short() {
		n = 3
	}
	for i := range n {
		id := strings.TrimSpace(g.must("sandbox", "create", "--isolation", "gvisor", "--ttl", "10m"))
		// A process that has its number in memory alone.
		g.must("sandbox", "exec", id, "--", "sh", "-c", fmt.Sprintf(
			`(n=%d; mkfifo ask answer; while read x <ask; do echo $n >answer; done) >/dev/null 2>&1 </dev/null & until [ -p answer ]; do sleep 0.05; done`, i))
		c := g.start("sandbox", "pause", "--to-disk", id)
		if i%3 == 2 { // and on the way back
			if code := c.ends(); code != 0 {
				t.Fatalf("pause: %s", c.output.String())
			}
			c = g.start("sandbox", "resume", id)
		}
		instant := time.NewTimer(time.Duration(random.Int64N(int64(200 * time.Millisecond))))
		<-instant.C
		if pid := daemonOf(g.dir); pid != 0 {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
		c.ends()
		row := decode[api.Sandbox](t, g.must("sandbox", "show", "--json", id))
		fell[row.State]++
		switch row.State {
		case api.SandboxLost:
			if row.Reason == "" {
				t.Errorf("kill %d: lost without a reason", i)
			}
		case api.SandboxPaused:
			g.must("sandbox", "resume", id)
			fallthrough
		case api.SandboxRunning: // the command that was killed found the new daemon
			out := g.must("sandbox", "exec", id, "--", "sh", "-c", "echo >ask; cat answer")
			if got := strings.TrimSpace(out); got != strconv.Itoa(i) {
				t.Errorf("kill %d: it remembers %q", i, got)
			}
			g.must("sandbox", "kill", id)
		default:
			t.Errorf("kill %d: the sandbox is %s: %s", i, row.State, row.Reason)
		}
		if left, err := os.ReadDir(filepath.Join(g.dir, "snapshots")); err != nil || len(left) > 0 {
			t.Errorf("kill %d: left of snapshots: %v, %v", i, left, err)
		}
	}
	t.Logf("found %v", fell)
}
