package story

import (
	"cmp"
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
	"hortus.dev/test/reaper"
	"hortus.dev/test/tier"
)

// killCount is how often a test kills a daemon: few times in T1, often in T2, or as
// often as HORTUS_TEST_KILLS says.
func killCount(t *testing.T, few, often int) int {
	t.Helper()
	if said := os.Getenv("HORTUS_TEST_KILLS"); said != "" {
		n, err := strconv.Atoi(said)
		if err != nil {
			t.Fatal("HORTUS_TEST_KILLS: ", err)
		}
		return n
	}
	return tier.Count(few, often)
}

// TestDaemonKilled kills the daemon at random instants while tasks run and
// sandboxes are made, and lets the next command's daemon recover. After each kill
// every sandbox is final and honest or the new daemon's, a task's never the latter, and
// nothing else may be left. What goes on is TestDaemonKilledAdopts's matter.
func TestDaemonKilled(t *testing.T) {
	t.Parallel()
	g := newGarden(t)
	g.shareKernel() // TestDaemonKilledWhileSaving is of sandboxes with their own
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 1))
	t.Logf("seed %d", seed)
	fell := map[string]int{}
	var longest time.Duration
	seenTasks, seenBoxes := map[api.TaskID]bool{}, map[api.SandboxID]bool{}
	n := killCount(t, 2, 15)
	for i := range n {
		commands := []*started{
			g.start("run", "--quiet", "Run this Python: import time; print(math.sqrt(2)); time.sleep(0.2)"),
			g.start("sandbox", "run", "--", "sh", "-c", "setsid sleep 600 & sleep 600"),
			g.start("sandbox", "create", "--ttl", "10m", "--label", "mine=yes"),
		}
		until(t, "a daemon starts", func() string {
			if daemonOf(g.dir) == 0 {
				return "none yet"
			}
			return ""
		})
		// Half of the kills fall into the daemon's start, where most is made; the
		// rest is spread over what the commands do.
		most := 400 * time.Millisecond
		if i%2 == 0 {
			most = 60 * time.Millisecond
		}
		g.killWithin(t, random, most)
		// A command that was still starting may have begun another daemon; it is
		// as good as any to recover.
		for _, c := range commands[:2] {
			if c.cmd.Args[1] == "sandbox" {
				_ = c.cmd.Process.Kill() // it would continue for ever in a new daemon
			}
		}
		for _, c := range commands {
			c.ends()
		}

		began := time.Now()
		sandboxes := decode[[]api.Sandbox](t, g.must("sandbox", "ls", "--all", "--json"))
		longest = max(longest, time.Since(began))
		me, err := g.client().Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		// The requests go on, and are verified.
		until(t, fmt.Sprintf("kill %d: the tasks end", i), func() string {
			for _, task := range decode[[]api.Task](t, g.must("task", "ls", "--json", "--limit", "5")) {
				if task.State != api.TaskDone {
					return fmt.Sprintf("task %s is %s", task.ID, task.State)
				}
			}
			return ""
		})
		sandboxes = decode[[]api.Sandbox](t, g.must("sandbox", "ls", "--all", "--json"))
		phase := "before anything was made"
		for _, b := range sandboxes {
			if seenBoxes[b.ID] {
				continue
			}
			switch {
			case b.Owner == me.Owner && b.Task != "" && !b.State.Final():
				t.Errorf("kill %d: sandbox %s keeps runnings task", i, b.ID)
			case b.Owner == me.Owner:
				if b.Labels["mine"] != "" && !b.State.Final() {
					phase = "with sandboxes that go on"
				}
				continue // taken over, or of a command that found the new daemon
			case !b.State.Final():
				t.Errorf("kill %d: sandbox %s of a dead daemon is %s", i, b.ID, b.State)
			case b.State == api.SandboxLost:
				phase = "with sandboxes alive or starting"
			}
			seenBoxes[b.ID] = true
		}
		for _, task := range decode[[]api.Task](t, g.must("task", "ls", "--json", "--limit", "5")) {
			if seenTasks[task.ID] {
				continue
			}
			seenTasks[task.ID] = true
			if task.Outcome != api.OutcomeVerified {
				t.Errorf("kill %d: task %s ended as %s: %v", i, task.ID, task.Outcome, task.Error)
			}
			phase = cmp.Or(g.phaseOf(task), phase)
			if task.State != api.TaskDone {
				t.Errorf("kill %d: task %s of a dead daemon is %s", i, task.ID, task.State)
			}
			if task.Outcome == api.OutcomeVerified && (len(task.Attempts) == 0 || !task.Attempts[len(task.Attempts)-1].Result.OK) {
				t.Errorf("kill %d: task %s is verified without a result", i, task.ID)
			}
		}
		fell[phase]++

		// What lives now belongs to the new daemon; end it, and look.
		for _, b := range sandboxes {
			if b.Owner == me.Owner && !b.State.Final() {
				g.run("sandbox", "kill", string(b.ID))
			}
		}
		g.idle()
		until(t, fmt.Sprintf("kill %d (%s): nothing is left", i, phase), func() string {
			left := g.leftoversAlive()
			for _, p := range g.orphans() {
				left = append(left, "process "+p.String())
			}
			return strings.Join(left, "\n")
		})
		if i%2 == 0 {
			g.must("daemon", "stop", "--force") // so that the next kill meets a start
			g.gone()
		}
		if t.Failed() {
			t.Fatalf("stopped after kill %d; the daemon's log:\n%s", i, g.log())
		}
	}
	var lines []string
	for phase, n := range fell {
		lines = append(lines, fmt.Sprintf("%3d %s", n, phase))
	}
	slices.Sort(lines)
	t.Logf("%d kills fell\n%s\nthe longest recovery, with the start of the daemon, took %s", n, strings.Join(lines, "\n"), longest.Round(time.Millisecond))
}

// phaseOf says from the events of a task how far it had come when its daemon was killed; empty if it was not.
func (g *garden) phaseOf(task api.Task) string {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	phase := "task: before the plan"
	finished, resumed := 0, false
	for e, err := range g.client().Tasks.Events(ctx, task.ID, 0) {
		if err != nil {
			g.t.Errorf("events of task %s: %v", task.ID, err)
			return phase
		}
		if resumed && e.Type != api.EventTaskFinished {
			continue
		}
		switch e.Type {
		case api.EventTaskResumed:
			resumed = true
		case api.EventPlan:
			phase = "task: writing the program"
		case api.EventCode:
			phase = "task: making a sandbox"
		case api.EventAttempt:
			phase = "task: before its command"
		case api.EventPhase:
			phase = "task: running"
		case api.EventResult, api.EventDiagnosis:
			phase = "task: between attempts"
		case api.EventTaskFinished:
			finished++
		}
	}
	if finished != 1 {
		g.t.Errorf("task %s has %d ends", task.ID, finished)
	}
	if !resumed {
		return ""
	}
	return phase
}

// leftoversAlive is leftovers under a daemon that lives: its parent groups may be
// there, and nothing in them.
func (g *garden) leftoversAlive() (left []string) {
	for _, l := range g.leftovers() {
		if path, ok := strings.CutPrefix(l, "control group "); ok {
			entries, err := os.ReadDir(path)
			if err != nil {
				continue // gone meanwhile
			}
			for _, e := range entries {
				if e.IsDir() {
					left = append(left, l+"/"+e.Name())
				}
			}
			continue
		}
		left = append(left, l)
	}
	warm := g.warm()
	return slices.DeleteFunc(left, func(l string) bool {
		return slices.ContainsFunc(warm, func(id string) bool { return strings.HasSuffix(l, "/"+id) })
	})
}

// warm lists the guests that the living daemon has booted ahead: what it had forked,
// and no row knows yet.
func (g *garden) warm() (ids []string) {
	records, err := filepath.Glob(filepath.Join(g.dir, "run/*/*/pid"))
	if err != nil {
		return nil
	}
	forked := reaper.Descendants(daemonOf(g.dir))
	for _, record := range records {
		b, err := os.ReadFile(record)
		if err != nil {
			continue
		}
		id := filepath.Base(filepath.Dir(record))
		pid, _, _ := strings.Cut(string(b), " ")
		child := slices.ContainsFunc(forked, func(p reaper.Process) bool { return strconv.Itoa(p.PID) == pid })
		if _, err := g.client().Sandboxes.Get(context.Background(), id); child && api.KindOf(err) == api.KindNotFound {
			ids = append(ids, id)
		}
	}
	return ids
}

// log is the daemon's.
func (g *garden) log() string {
	b, err := os.ReadFile(g.dir + "/daemon.log")
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-8<<10):])
}

// TestLooksWhereThingsAre makes sure that the questions of the other tests can
// find something: with a sandbox alive there is a run directory, a process and,
// where the host has any, a control group.
func TestLooksWhereThingsAre(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	g := newGarden(t)
	g.light()
	sandbox := decode[api.Sandbox](t, g.must("sandbox", "create", "--json"))
	if pid := daemonOf(g.dir); pid == 0 || len(reaper.Descendants(pid)) == 0 {
		t.Errorf("no process below the daemon %d", pid)
	}
	left := strings.Join(g.leftovers(), "\n")
	if !strings.Contains(left, "run directory "+filepath.Join(sandbox.Isolation, string(sandbox.ID))) {
		t.Errorf("no run directory is seen: %s", left)
	}
	doctor := decode[admin.Doctor](t, g.must("doctor", "--json"))
	if a, ok := doctor.Backends[0].Has(api.CapPause); ok && !strings.Contains(left, "control group") {
		t.Errorf("pausing works by %s, but no control group is seen: %s", a.Reason, left)
	}
}
