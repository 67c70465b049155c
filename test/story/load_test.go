package story

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/test/tier"
)

// load is how many sandboxes TestLoad makes, of how many clients at once, on a host
// that is set to hold how many: fewer than there are clients, so that some wait.
type load struct{ sandboxes, clients, most int }

// loadOf reads HORTUS_TEST_LOAD: SANDBOXES/CLIENTS/MOST.
func loadOf(t *testing.T) load {
	l := load{30, 10, 6}
	if s := os.Getenv("HORTUS_TEST_LOAD"); s != "" {
		if _, err := fmt.Sscanf(s, "%d/%d/%d", &l.sandboxes, &l.clients, &l.most); err != nil {
			t.Fatalf("HORTUS_TEST_LOAD=%q: %v", s, err)
		}
	}
	return l
}

// loadIsolation is what the load's sandboxes are.
func loadIsolation() string { return cmp.Or(os.Getenv("HORTUS_TEST_LOAD_ISOLATION"), "container") }

// footprint is what a process holds: memory in bytes, and descriptors, by what they are.
type footprint struct {
	memory      int64
	descriptors int
	kinds       map[string]int
}

func (f footprint) String() string {
	return fmt.Sprintf("%.1f MB, %d descriptors", float64(f.memory)/1e6, f.descriptors)
}

func footprintOf(t *testing.T, pid int) (f footprint) {
	t.Helper()
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	fds, err := os.ReadDir(filepath.Join(dir, "fd"))
	text, serr := os.ReadFile(filepath.Join(dir, "status"))
	if err := errors.Join(err, serr); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			var kb int64
			if _, err := fmt.Sscan(rest, &kb); err != nil {
				t.Fatal(err)
			}
			f.memory = kb << 10
		}
	}
	f.descriptors, f.kinds = len(fds), map[string]int{}
	for _, fd := range fds {
		// A link that is gone was a descriptor that was closed meanwhile.
		if to, err := os.Readlink(filepath.Join(dir, "fd", fd.Name())); err == nil {
			kind, _, _ := strings.Cut(filepath.Base(to), ":[")
			f.kinds[kind]++
		}
	}
	return f
}

// TestLoad: sandboxes come and go, of many clients at once and on a host that cannot
// hold them all. Nothing fails, and nothing is left.
func TestLoad(t *testing.T) {
	tier.AnyUser(t)
	want := loadOf(t)
	g := newGarden(t)
	g.light()
	isolation := loadIsolation()
	g.env = append(g.env, "HORTUS_ISOLATION="+isolation, "HORTUS_IDLE=10m", "HORTUS_MAX_SANDBOXES="+strconv.Itoa(want.most))
	g.must("sandbox", "run", "--", "true")
	pid := daemonOf(g.dir)
	watch := g.client()
	defer watch.Close()
	// One of the kind that is to come, so that the pool is full of it before and after.
	sandbox, err := watch.Sandboxes.Create(t.Context(), api.CreateSandbox{Isolation: isolation})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sandbox.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	sandbox.Close()
	full := func() {
		t.Helper()
		until(t, "the pool is full", func() string {
			if info, err := watch.Info(t.Context()); err != nil || info.Warm < info.WarmWanted {
				return fmt.Sprintf("%d of %d guests are warm, %v", info.Warm, info.WarmWanted, err)
			}
			return ""
		})
	}
	full()
	empty := footprintOf(t, pid)

	// What the daemon keeps for as many at once (ranges of user ids, readers of the
	// database) is there after the first half; the second must add nothing.
	var left, waited atomic.Int64
	var before footprint
	began := time.Now()
	var all sync.WaitGroup
	for turn := range 2 * want.clients {
		i := turn % want.clients
		if i == 0 {
			all.Wait()
			if turn > 0 {
				full()
				before = footprintOf(t, pid)
			}
			left.Store(int64(want.sandboxes) / 2)
		}
		all.Go(func() {
			c := g.client()
			defer c.Close()
			for left.Add(-1) >= 0 {
				sandbox, err := c.Sandboxes.Create(t.Context(), api.CreateSandbox{Isolation: isolation})
				if err != nil {
					t.Errorf("client %d: create: %v (%s)", i, err, api.HintOf(err))
					continue
				}
				word := string(sandbox.ID())
				if out, err := sandbox.Command(t.Context(), "echo", word).Output(); err != nil || string(out) != word+"\n" {
					t.Errorf("client %d: %q, %v", i, out, err)
				}
				if now, err := sandbox.Info(t.Context()); err != nil || now.State != api.SandboxRunning {
					t.Errorf("client %d: %s is %s, %v", i, word, now.State, err)
				}
				for e, err := range sandbox.Events(t.Context(), 0) {
					if err != nil {
						t.Errorf("client %d: events: %v", i, err)
					}
					if e.Type == api.EventWaiting {
						waited.Add(1)
						break
					}
					if e.Type == api.EventSandboxState {
						break
					}
				}
				if killed, err := sandbox.Kill(t.Context()); err != nil || killed.Proof.Left != 0 || killed.Sandbox.State != api.SandboxEnded {
					t.Errorf("client %d: kill: %+v, %v", i, killed, err)
				}
				sandbox.Close()
			}
		})
	}
	all.Wait()
	took := time.Since(began)
	if live, err := watch.Sandboxes.List(t.Context(), false); err != nil || len(live) != 0 {
		t.Errorf("%d sandboxes live, %v", len(live), err)
	}
	// Connections come to rest a moment later.
	full()
	var after footprint
	until(t, "the daemon has no more descriptors than before", func() string {
		if after = footprintOf(t, pid); after.descriptors > before.descriptors+slackDescriptors {
			return fmt.Sprintf("%d, and %d before: %v, and %v before", after.descriptors, before.descriptors, after.kinds, before.kinds)
		}
		return ""
	})
	if after.memory > before.memory+slackMemory {
		t.Errorf("memory grew from %s to %s", before, after)
	}
	if want.most < want.clients && waited.Load() == 0 {
		t.Error("nobody waited: the host was never full")
	}
	t.Logf("%d sandboxes of %d clients, %d at a time, on %s: %s, %.1f a second; %d waited; at first %s, after half %s, after all %s",
		want.sandboxes, want.clients, want.most, isolation, took.Round(time.Millisecond), float64(want.sandboxes)/took.Seconds(), waited.Load(), empty, before, after)
}

// What a daemon may hold more after a load than before: connections to clients that
// are being closed, and the memory that Go keeps for the next.
const (
	slackDescriptors = 16
	slackMemory      = 100 << 20
)
