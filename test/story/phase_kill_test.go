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

// TestKilledInEveryPhase kills the daemon at random instants of the phases that files go through: clone, install, pack,
// attach, write, seal. After each kill the next daemon has every write that was reported complete, each layer is
// whole, every workspace can be used at once, and nothing is left. HORTUS_TEST_KILLS=200 kills as often as that.
func TestKilledInEveryPhase(t *testing.T) {
	tier.Soak(t) // kills; TestWorkspaceSurvives kills a daemon while files are written
	t.Parallel()
	g := newGarden(t)
	g.env = append(g.env, "HORTUS_ISOLATION=container", "HORTUS_POOL=0", "HORTUS_IDLE=10m")
	g.can("container", api.CapStart, api.CapWorkspace)
	k := newKilling(t, g)
	kills := killCount(t, len(k.phases), 200)
	k.measure = kills > len(k.phases)
	turn := 0
	for i := 0; i < kills || turn < len(k.phases); i++ {
		if i >= 3*max(kills, len(k.phases)) {
			t.Fatalf("the kills miss the phases: %v", k.fell)
		}
		p := k.phases[turn%len(k.phases)]
		if k.kill(i, p, p.ways[k.random.IntN(len(p.ways))]) {
			turn++
		}
		if t.Failed() {
			t.Fatalf("stopped after kill %d; the daemon's log:\n%s", i, g.log())
		}
		if k.rounds++; k.rounds%24 == 0 {
			k.removeAll()
			k.create()
		}
	}
	k.removeAll()
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(k.fell)) {
		lines = append(lines, fmt.Sprintf("%4d %s", k.fell[name], name))
	}
	t.Logf("kills fell\n%s", strings.Join(lines, "\n"))
	for _, p := range k.phases {
		if k.hits[p.name] == 0 {
			t.Errorf("no kill fell into the phase %s", p.name)
		}
	}
}

// phase is one of the phases, with the commands that go through it.
type phase struct {
	name string
	ways []way
}

// way is a command that goes through a phase.
type way struct {
	name  string
	start func() act
}

// act is a command that runs.
type act struct {
	run *started
	// begun and over report whether the phase has begun, and whether it has ended.
	begun, over func() bool
	// everything has the processes of the sandbox killed with the daemon.
	everything bool
	// check runs after the phase, or after the restart that follows the kill.
	check func()
}

// killing is the state of the test.
type killing struct {
	t      *testing.T
	g      *garden
	random *rand.Rand
	phases []phase

	// measure has each way run without a kill first, which is the control; else kills fall into the first moments of phases.
	measure bool
	took    map[string]time.Duration // of each way
	fell    map[string]int
	hits    map[string]int

	setup, source string // repositories
	serial        int
	rounds        int
	shop          string // the workspace
	ledger        ledger
}

func newKilling(t *testing.T, g *garden) *killing {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	k := &killing{t: t, g: g, random: rand.New(rand.NewPCG(seed, 18)), took: map[string]time.Duration{}, fell: map[string]int{}, hits: map[string]int{}}
	k.setup = makeRepo(t, g, recipe(installs))
	k.source = makeRepo(t, g, map[string]string{"big": k.noise(12 << 20), ".gitignore": "\n"})
	k.phases = []phase{
		{"clone", []way{{"add", k.add}, {"sync", k.sync}}},
		{"install", []way{{"steps", k.install}}},
		{"pack", []way{{"layer", k.pack}}},
		{"attach", []way{{"task", k.attachTask}}},
		{"write", []way{{"daemon", func() act { return k.write(false) }}, {"every process", func() act { return k.write(true) }}}},
		{"seal", []way{{"seal", func() act { return k.seal("seal") }}, {"fork", func() act { return k.seal("fork") }}}},
	}
	attach := &k.phases[3]
	for _, isolation := range g.isolations(t) {
		attach.ways = append(attach.ways, way{isolation, func() act { return k.attach(isolation) }})
	}
	if os.Geteuid() != 0 && !tier.Soaking() {
		t.Log("attach, write and seal only: root tries the phases that do not depend on the user, soak all")
		k.phases = k.phases[3:]
	}
	k.create()
	return k
}

// kill kills the daemon at a random instant of a phase, and reports whether it was in it.
func (k *killing) kill(i int, p phase, w way) (hit bool) {
	k.t.Helper()
	name := p.name + ": " + w.name
	switch {
	case k.took[name] == 0 && !k.measure:
		k.took[name] = 50 * time.Millisecond
	case k.took[name] == 0:
		a := w.start()
		k.took[name] = max(k.watch(name, a), time.Millisecond)
		a.run.ends()
		k.recovered(name + " without a kill")
		a.check()
		k.ledger.check(k)
		if k.t.Failed() {
			return false
		}
	}
	pid := daemonOf(k.g.dir)
	if pid == 0 {
		k.t.Fatal("there is no daemon")
	}
	a := w.start()
	until(k.t, name+" begins", func() string {
		if !a.begun() && !a.over() {
			return "it said:\n" + a.run.output.String()
		}
		return ""
	})
	instant := time.NewTimer(time.Duration(k.random.Int64N(int64(k.took[name]))))
	<-instant.C
	holders := k.holders(a.everything)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		k.t.Fatalf("kill daemon %d: %v", pid, err)
	}
	for _, holder := range holders {
		_ = syscall.Kill(holder, syscall.SIGKILL) // it may have ended
	}
	a.run.ends()
	until(k.t, "the daemon ends", func() string {
		if daemonOf(k.g.dir) == pid {
			return "it is there"
		}
		return ""
	})
	if hit = !a.over(); hit {
		k.hits[p.name]++
		k.fell[name]++
	} else {
		k.fell["after "+name]++
		k.took[name] = max(k.took[name]*4/5, time.Millisecond) // it was measured on a busier machine
	}
	for _, half := range k.half() {
		k.fell["left by "+name+": "+half]++
	}
	what := fmt.Sprintf("kill %d, %s", i, name)
	k.recovered(what)
	a.check()
	k.ledger.check(k)
	if k.t.Failed() {
		k.t.Logf("%s (in the phase: %t) said:\n%s", what, hit, a.run.output)
	}
	return hit
}

// watch returns how long a phase takes.
func (k *killing) watch(name string, a act) time.Duration {
	k.t.Helper()
	var began time.Time
	until(k.t, name+" ends", func() string {
		over := a.over()
		if began.IsZero() && (over || a.begun()) {
			began = time.Now()
		}
		if !over {
			return "it said:\n" + a.run.output.String()
		}
		return ""
	})
	return time.Since(began)
}

// said returns a question for the output of a command.
func (s *started) said(text string) func() bool {
	return func() bool { return strings.Contains(s.output.String(), text) }
}

// succeeded reports whether a command has ended well.
func (s *started) succeeded() bool {
	select {
	case <-s.done:
		return s.code == 0
	default:
		return false
	}
}

// noise returns text that cannot be compressed much.
func (k *killing) noise(n int) string {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789"
	b := make([]byte, n)
	for i := range b {
		b[i] = letters[k.random.IntN(len(letters))]
		if i%79 == 78 {
			b[i] = '\n'
		}
	}
	return string(b)
}

// holders are the first processes of the sandboxes that use workspaces.
func (k *killing) holders(want bool) (pids []int) {
	k.t.Helper()
	if want {
		pids = append(pids, k.g.holder(k.t, k.shop))
	}
	return pids
}

// half lists what a killed daemon left half-made.
func (k *killing) half() (found []string) {
	for what, pattern := range map[string]string{
		"half an image": "layers/new-*/image.erofs", "half a layer": "layers/new-*", "half a workspace": "workspaces/new-*",
		"half a copy": "repositories/*.new",
	} {
		if paths, err := filepath.Glob(filepath.Join(k.g.dir, pattern)); err == nil && len(paths) > 0 {
			found = append(found, what)
		}
	}
	return found
}

// commit changes a file of a repository.
func (k *killing) commit(dir, name, text string) {
	k.t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		k.t.Fatal(err)
	}
	gitIn(k.t, dir, "add", "-A")
	gitIn(k.t, dir, "commit", "-q", "-m", "more")
}

// next numbers commands.
func (k *killing) next() int { k.serial++; return k.serial }
