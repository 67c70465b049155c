package story

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/test/tier"
)

// filler has private memory of so many megabytes, all of one value. It answers every connection with
// the values that its pages have, after it has filled them with the one that it was sent.
const filler = `
import mmap, socket, sys
n = int(sys.argv[1]) << 20
m = mmap.mmap(-1, n, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
s = socket.create_server(("127.0.0.1", 7101))
while True:
    c, _ = s.accept()
    word = c.recv(100).decode()
    if word != "?":
        for i in range(0, n, 1 << 20): m[i:i + (1 << 20)] = bytes([int(word)]) * (1 << 20)
    seen = set()
    for i in range(0, n, 1 << 20):
        part = m[i:i + (1 << 20)]
        seen |= set(part[:1]) if part == part[:1] * len(part) else set(part)
    c.sendall(" ".join(map(str, sorted(seen))).encode())
    c.close()
`

// fillerMB is how much memory it has.
const fillerMB = 64

// forkKilling is a parent with that program, which is forked again and again.
type forkKilling struct {
	t      *testing.T
	g      *garden
	parent string
}

// newForkKilling starts the parent.
func newForkKilling(t *testing.T, g *garden) *forkKilling {
	t.Helper()
	k := &forkKilling{t: t, g: g, parent: strings.TrimSpace(g.must("sandbox", "create", "--ttl", "2h"))}
	dir := t.TempDir()
	for name, text := range map[string]string{"filler.py": filler, "ask.py": askAll} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		g.must("sandbox", "cp", filepath.Join(dir, name), k.parent+":/workspace/"+name)
	}
	g.must("sandbox", "exec", k.parent, "--", "sh", "-c", fmt.Sprintf("setsid python3 filler.py %d </dev/null >filler.out 2>&1 &", fillerMB))
	return k
}

// fill sends a word to the program of a sandbox, and wants it to have one value.
func (k *forkKilling) fill(id, word string, want int) {
	k.t.Helper()
	got := strings.TrimSpace(k.g.must("sandbox", "exec", id, "--", "python3", "ask.py", word, "7101"))
	if got != fmt.Sprintf("7101 %d", want) {
		k.t.Errorf("%s has %q in its memory, not %d", id, got, want)
	}
}

// memory is what the parent uses, in bytes.
func (k *forkKilling) memory() int64 {
	k.t.Helper()
	c := k.g.client()
	defer c.Close()
	sandbox, err := c.Sandboxes.Get(k.t.Context(), k.parent)
	if err != nil {
		k.t.Fatal(err)
	}
	defer sandbox.Close()
	s, err := sandbox.Stats(k.t.Context())
	if err != nil {
		k.t.Fatal(err)
	}
	return s.MemoryBytes
}

// left wants the directories of forks to be those of sandboxes that are there, and images that are
// needed for a moment to be those of the daemon that runs.
func (k *forkKilling) left(what string) {
	k.t.Helper()
	me, err := k.g.client().Info(k.t.Context())
	if err != nil {
		k.t.Fatal(err)
	}
	until(k.t, what+": nothing of dead daemons is left", func() string {
		var left []string
		there := k.g.rows()
		dirs, err := filepath.Glob(filepath.Join(k.g.dir, "run/gvisor/*.bases"))
		if err != nil {
			return err.Error()
		}
		for _, dir := range dirs {
			if s, ok := there[strings.TrimSuffix(filepath.Base(dir), ".bases")]; !ok || s.State.Final() {
				left = append(left, dir)
			}
		}
		entries, err := os.ReadDir(filepath.Join(k.g.dir, "snapshots"))
		if err != nil && !os.IsNotExist(err) {
			return err.Error()
		}
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), "transient-"+string(me.Owner)) {
				left = append(left, e.Name())
			}
		}
		return strings.Join(left, "\n")
	})
}

// TestDaemonKilledWhileForking kills the daemon at random instants while it forks a sandbox. What
// is offered afterwards as running has the memory of the fork, the parent works, and after its
// children have ended it has no memory for them any more. HORTUS_TEST_KILLS=60 kills as often as
// that.
func TestDaemonKilledWhileForking(t *testing.T) {
	t.Parallel()
	tier.Soak(t) // TestDaemonKilledWhileForkingWithWorkspace has the same instants
	g := newGarden(t)
	g.env = append(g.env, "HORTUS_POOL=0", "HORTUS_IDLE=10m", "HORTUS_ISOLATION=gvisor")
	g.canSaveMemory()
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 5))
	t.Logf("seed %d", seed)
	k := newForkKilling(t, g)
	var took time.Duration
	var used int64
	fell := map[string]int{}
	n := killCount(t, 2, 60) // one at each of the two instants
	for i := range n + 2 {
		// The first two are controls, which measure what a fork takes and what the parent uses
		// after it.
		control := i < 2
		value := i%100 + 1
		what := fmt.Sprintf("kill %d", i-2)
		k.fill(k.parent, fmt.Sprint(value), value)
		pid := daemonOf(g.dir)
		began := time.Now()
		run := g.start("sandbox", "fork", k.parent, "--count", "3", "--ttl", "1h")
		if control {
			what = "control"
			if code := run.ends(); code != 0 {
				t.Fatalf("a fork without a kill: %s", run.output)
			}
			took = max(took, time.Since(began))
		} else {
			if i%2 == 0 { // the instant after the memory was frozen, before most children
				until(t, what+": the image is there, or the fork is over", func() string {
					images, err := filepath.Glob(filepath.Join(g.dir, "snapshots/transient-*/*/bases.json"))
					if err == nil && len(images) == 0 && !run.succeeded() {
						return "it is not"
					}
					return ""
				})
			} else {
				<-time.NewTimer(time.Duration(random.Int64N(int64(took)))).C
			}
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatalf("kill daemon %d: %v", pid, err)
			}
			run.ends()
		}
		running := 0
		for id, s := range g.rows() {
			switch {
			case s.State.Final():
			case s.State != api.SandboxRunning:
				t.Errorf("%s: sandbox %s is %s: %s", what, id, s.State, s.Reason)
			default:
				running++
				k.fill(id, "?", value)
			}
		}
		k.left(what)
		// The parent and its children write by themselves.
		k.fill(k.parent, "200", 200)
		for id, s := range g.rows() {
			if id != k.parent && !s.State.Final() {
				k.fill(id, "?", value)
				k.fill(id, "201", 201)
				g.must("sandbox", "kill", id)
			}
		}
		k.fill(k.parent, "?", 200)
		k.left(what)
		fell[fmt.Sprintf("%d of 3 children", running-1)]++
		if control {
			used = max(used, k.memory())
			if running != 4 {
				t.Errorf("after a fork without a kill there are %d sandboxes", running)
			}
			continue
		}
		until(t, what+": the parent gives back what it held for its children", func() string {
			if now := k.memory(); now > used+fillerMB<<20/2 {
				return fmt.Sprintf("it uses %d MB, and used %d MB", now>>20, used>>20)
			}
			return ""
		})
		if t.Failed() {
			t.Fatalf("stopped after %s, with %d children; the daemon's log:\n%s", what, running-1, g.log())
		}
	}
	var lines []string
	for _, how := range slices.Sorted(maps.Keys(fell)) {
		lines = append(lines, fmt.Sprintf("%3d left %s", fell[how], how))
	}
	t.Logf("%d kills, and 2 forks without; a fork took %s; the parent uses %d MB\n%s", n, took.Round(time.Millisecond), used>>20, strings.Join(lines, "\n"))
}

// TestForksOfAPausedParent: children end while their parent is paused, also if a daemon is killed
// meanwhile. The parent has no memory for them any more after it was resumed.
func TestForksOfAPausedParent(t *testing.T) {
	tier.Soak(t) // test/conformance forks and pauses
	t.Parallel()
	g := newGarden(t)
	g.env = append(g.env, "HORTUS_POOL=0", "HORTUS_IDLE=10m", "HORTUS_ISOLATION=gvisor")
	g.canSaveMemory()
	g.can("gvisor", api.CapPause)
	k := newForkKilling(t, g)
	var used int64
	for i, how := range []string{"not paused", "not paused", "paused", "paused, and the daemon killed"} {
		k.fill(k.parent, fmt.Sprint(i+1), i+1)
		f := decode[api.ForkResult](t, g.must("sandbox", "fork", k.parent, "--count", "2", "--json"))
		k.fill(k.parent, "100", 100)
		if i >= 2 {
			g.must("sandbox", "pause", k.parent)
		}
		for n, c := range f.Children {
			if c.Sandbox == nil {
				t.Fatalf("child %d: %v", n, c.Error)
			}
			k.fill(string(c.Sandbox.ID), "?", i+1)
			g.must("sandbox", "kill", string(c.Sandbox.ID))
			if i == 3 && n == 0 {
				g.killDaemon(t)
			}
		}
		if i >= 2 {
			g.must("sandbox", "resume", k.parent)
		}
		k.fill(k.parent, "?", 100)
		if i < 2 {
			used = max(used, k.memory())
			continue
		}
		until(t, how+": the parent gives back what it held for its children", func() string {
			if now := k.memory(); now > used+fillerMB<<20/2 {
				return fmt.Sprintf("it uses %d MB, and used %d MB", now>>20, used>>20)
			}
			return ""
		})
		notes, err := filepath.Glob(filepath.Join(g.dir, "run/gvisor/*.bases/*"))
		if err != nil || len(notes) > 0 {
			t.Errorf("%s: there is still %q, %v", how, notes, err)
		}
	}
}
