package story

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/test/tier"
)

// What a family may grow to before some of it is removed.
const (
	mostBoxes     = 6
	mostSnapshots = 4
)

// familyKilling is a family whose daemon is killed while several commands run.
type familyKilling struct {
	*family
	random *rand.Rand
	// ending are sandboxes and snapshots that a command of this round removes.
	ending map[string]bool
	fell   map[string]int
}

// one chooses one of the names.
func (k *familyKilling) one(of []string) string {
	if len(of) == 0 {
		return ""
	}
	return of[k.random.IntN(len(of))]
}

// begin starts a command on something that is there. It returns nil if there is nothing to begin on.
func (k *familyKilling) begin(verb string) *started {
	sandbox, snapshot := k.one(sorted(k.sandboxes)), k.one(sorted(k.snapshots))
	from := func(id string) string { return "from=" + id }
	switch verb {
	case "fork":
		return k.g.start("sandbox", "fork", sandbox, "--count", "2", "--ttl", "3h", "--label", from(sandbox))
	case "snapshot":
		return k.g.start("sandbox", "snapshot", sandbox)
	case "copy":
		return k.g.start("sandbox", "snapshot", sandbox, "--copy-memory")
	case "pause":
		return k.g.start("sandbox", "pause", sandbox)
	case "suspend":
		return k.g.start("sandbox", "pause", "--to-disk", sandbox)
	case "resume":
		return k.g.start("sandbox", "resume", sandbox)
	case "collect":
		return k.g.start("gc", "--older-than", "10h")
	case "collect all":
		for id := range k.snapshots { // no template and no paused sandbox needs them
			k.ending[id] = true
		}
		return k.g.start("gc", "--older-than", "0")
	case "kill":
		if sandbox == k.root {
			return nil
		}
		k.ending[sandbox] = true
		return k.g.start("sandbox", "kill", sandbox)
	}
	if snapshot == "" {
		return nil
	}
	if verb == "remove" {
		k.ending[snapshot] = true
		return k.g.start("snapshot", "rm", snapshot)
	}
	return k.g.start("sandbox", "create", "--template", snapshot, "--ttl", "3h", "--label", from(snapshot))
}

// known adds what the commands of a round have made, and drops what they were to remove.
func (k *familyKilling) known(what string) {
	k.t.Helper()
	sandboxes, snapshots := k.g.rows(), k.listed()
	before, saved := k.sandboxes, k.snapshots
	k.sandboxes, k.snapshots = map[string]stamps{}, map[string]stamps{}
	for id, sandbox := range sandboxes {
		want, old := before[id]
		switch {
		case sandbox.State.Final():
			if old && !k.ending[id] {
				k.t.Errorf("%s: sandbox %s is %s: %s", what, id, sandbox.State, sandbox.Reason)
			}
			continue
		case sandbox.State != api.SandboxRunning && sandbox.State != api.SandboxPaused:
			k.t.Errorf("%s: sandbox %s is %s: %s", what, id, sandbox.State, sandbox.Reason)
		}
		if from := sandbox.Labels["from"]; !old {
			var ok bool
			if want, ok = before[from]; !ok {
				if want, ok = saved[from]; !ok {
					k.t.Errorf("%s: sandbox %s is of %q, which is not there", what, id, from)
					continue
				}
			}
		}
		k.sandboxes[id] = want
	}
	for _, s := range snapshots {
		want, old := saved[string(s.ID)]
		if !old {
			want = before[string(s.Sandbox)]
		}
		if s.State != api.SnapshotReady {
			k.t.Errorf("%s: snapshot %s is %s: %s", what, s.ID, s.State, s.Reason)
		}
		if !s.Paused {
			k.snapshots[string(s.ID)] = want
		}
	}
	for id := range saved {
		if _, ok := k.snapshots[id]; !ok && !k.ending[id] {
			k.t.Errorf("%s: snapshot %s is not there any more", what, id)
		}
	}
}

// works wants everything to have its own memory: sandboxes, and what snapshots start.
func (k *familyKilling) works(what string) {
	k.t.Helper()
	rows := k.g.rows()
	for _, id := range sorted(k.sandboxes) {
		if rows[id].State == api.SandboxPaused {
			if k.random.IntN(3) == 0 {
				continue // it stays paused over the next kill
			}
			k.g.must("sandbox", "resume", id)
		}
		k.check(id, k.sandboxes[id])
	}
	for _, id := range sorted(k.snapshots) {
		sandbox := strings.TrimSpace(k.g.must("sandbox", "create", "--quiet", "--template", id, "--ttl", "3h"))
		k.check(sandbox, k.snapshots[id])
		k.g.must("sandbox", "kill", sandbox)
	}
	if k.t.Failed() {
		k.t.Fatalf("stopped after %s; the daemon's log:\n%s", what, k.g.log())
	}
}

// trim removes what is too much, and lets every sandbox that runs write something.
func (k *familyKilling) trim() {
	k.t.Helper()
	for len(k.sandboxes) > mostBoxes {
		if id := k.one(sorted(k.sandboxes)); id != k.root {
			k.g.must("sandbox", "kill", id)
			delete(k.sandboxes, id)
		}
	}
	for len(k.snapshots) > mostSnapshots {
		id := k.one(sorted(k.snapshots))
		k.g.must("snapshot", "rm", id)
		delete(k.snapshots, id)
	}
	rows := k.g.rows()
	for _, id := range sorted(k.sandboxes) {
		if rows[id].State == api.SandboxRunning {
			k.write(id, k.random.IntN(stampAll), k.random.IntN(stampAll))
		}
	}
}

// TestDaemonKilledWithFamilies kills the daemon at random instants while it forks, saves, pauses,
// resumes, restores and removes sandboxes of one family and snapshots of them, and collects, several of
// these at once. After each kill every sandbox and everything that a snapshot starts has its own memory,
// on every page, and nothing is kept that nobody uses. HORTUS_TEST_KILLS=60 kills as often as that.
func TestDaemonKilledWithFamilies(t *testing.T) {
	tier.Soak(t) // TestDaemonKilledAdopts kills a daemon with sandboxes
	tier.AnyUser(t)
	t.Parallel()
	g := newGarden(t)
	g.env = append(g.env, "HORTUS_POOL=0", "HORTUS_IDLE=10m", "HORTUS_ISOLATION=gvisor")
	g.canSaveMemory()
	g.can("gvisor", api.CapPause)
	killWithFamily(t, g, newFamily(t, g))
}

// TestDaemonKilledWithFileFamilies does the same with containers, whose files have the values: children and parents share
// them in layers.
func TestDaemonKilledWithFileFamilies(t *testing.T) {
	tier.Soak(t) // as above
	tier.AnyUser(t)
	t.Parallel()
	g := newGarden(t)
	g.env = append(g.env, "HORTUS_POOL=0", "HORTUS_IDLE=10m", "HORTUS_ISOLATION=container")
	g.can("container", api.CapStart, api.CapPause)
	killWithFamily(t, g, newFileFamily(t, g))
}

func killWithFamily(t *testing.T, g *garden, f *family) {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	k := &familyKilling{family: f, random: rand.New(rand.NewPCG(seed, 7)), fell: map[string]int{}}
	k.writeAll(k.root)
	used := k.memory()
	// A control without kills, which measures what the commands take.
	var took time.Duration
	for _, verb := range k.can([]string{"fork", "snapshot", "copy", "suspend", "restore"}) {
		k.ending = map[string]bool{}
		began := time.Now()
		c := k.begin(verb)
		if code := c.ends(); code != 0 {
			t.Fatalf("%s without a kill: %s", verb, c.output)
		}
		took = max(took, time.Since(began))
		k.known("control")
		k.works("the control")
	}
	verbs := k.can([]string{"fork", "fork", "snapshot", "snapshot", "copy", "pause", "suspend", "resume", "restore", "restore", "remove", "kill", "collect", "collect all"})
	n := killCount(t, 2, 60)
	for i := range n {
		k.trim()
		k.ending = map[string]bool{}
		var commands []*started
		var names []string
		for range 5 {
			verb := k.one(verbs)
			if c := k.begin(verb); c != nil {
				commands, names = append(commands, c), append(names, verb)
			}
		}
		what := fmt.Sprintf("kill %d (%s)", i, strings.Join(names, ", "))
		// In the beginning most is made; commands that wait for each other end later.
		most := took * []time.Duration{1, 3, 9}[i%3] / 3
		<-time.NewTimer(time.Duration(k.random.Int64N(int64(most)))).C
		pid := daemonOf(g.dir)
		for j, c := range commands {
			if c.succeeded() {
				names[j] += " was over"
			}
			k.fell[names[j]]++
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatalf("kill daemon %d: %v", pid, err)
		}
		for _, c := range commands {
			c.ends()
		}
		k.known(what)
		k.kept(what)
		k.works(what)
		k.kept(what)
	}
	k.end(used)
	var lines []string
	for _, how := range sorted(k.fell) {
		lines = append(lines, fmt.Sprintf("%3d %s", k.fell[how], how))
	}
	t.Logf("%d kills; %d values; a command took %s\n%s", n, k.last, took.Round(time.Millisecond), strings.Join(lines, "\n"))
}
