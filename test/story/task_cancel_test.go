package story

import (
	"encoding/json"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/test/reaper"
	"hortus.dev/test/tier"
)

// TestTaskCanceled cancels tasks at random instants, by Ctrl-C and by command,
// while their agents start processes that want to live on: each ends with a true
// receipt, no process, one finish event, and a workspace that was kept whole.
func TestTaskCanceled(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	n := tier.Count(4, 50)
	g := newGarden(t)
	g.shareKernel()
	var steps []step
	for range 4 {
		steps = append(steps,
			shell("setsid -f sh -c 'while :; do sleep 0.05; done' </dev/null >/dev/null 2>&1; echo started"),
			shell("for i in 1 2 3 4 5 6; do echo line >> notes.txt; sleep 0.02; done"),
			shell("sed -i 's/a - b/a + b/' calc.py; sleep 0.1"))
	}
	var all []step
	for range n {
		all = append(all, steps...)
		all = append(all, finishes())
	}
	// Tasks share the script: what each does differs, that they are cut does not.
	lenient(t, g, scenario(t, all...))
	withKeys(g, modelKey)
	dir := makeRepo(t, g, small)
	g.must("task", "ls") // the daemon is there
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 2))
	t.Logf("seed %d", seed)
	var mu sync.Mutex
	ends := map[api.Outcome]int{}
	var ids []api.TaskID
	const lanes = 3
	waits := make(chan time.Duration, n)
	for range n {
		waits <- time.Duration(random.Int64N(int64(1500 * time.Millisecond)))
	}
	close(waits)
	var wg sync.WaitGroup
	for range lanes {
		wg.Go(func() {
			for wait := range waits {
				id, outcome := cancelAfter(t, g, dir, wait)
				mu.Lock()
				ends[outcome]++
				if id != "" {
					ids = append(ids, id)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	t.Logf("ends: %v", ends)
	if failed := ends[api.OutcomeFailed]; failed > 0 {
		t.Errorf("%d tasks failed; a canceled one is canceled, or was done before", failed)
	}
	if ends[api.OutcomeCanceled] < n/2 {
		t.Errorf("too few were canceled under way: %v", ends)
	}
	until(t, "no process is left", func() string {
		for _, p := range reaper.Descendants(daemonOf(g.dir)) {
			if slices.ContainsFunc(p.Args, func(a string) bool { return strings.Contains(a, "sleep 0.05") }) {
				return p.String()
			}
		}
		return ""
	})
	for _, id := range ids {
		canceledWell(t, g, dir, id)
	}
}

// cancelEarly is the wait below which a task is canceled from the start of its command.
const cancelEarly = 100 * time.Millisecond

// cancelAfter starts a task, cancels it a while after its first line and gives its outcome. A
// wait below cancelEarly counts from the start of the command: then the task may not have begun.
func cancelAfter(t *testing.T, g *garden, dir string, wait time.Duration) (api.TaskID, api.Outcome) {
	var out strings.Builder
	cmd := exec.Command(binary, "task", "--repo", dir, "--model", "anthropic", "--author", "Ada <ada@example.org>", "--json", "Fix the failing test")
	cmd.Env, cmd.Stdout = g.env, &out
	lines, err := cmd.StderrPipe()
	if err != nil {
		t.Error(err)
		return "", ""
	}
	if err := cmd.Start(); err != nil {
		t.Error(err)
		return "", ""
	}
	if wait >= cancelEarly {
		if _, err := lines.Read(make([]byte, 1)); err != nil {
			t.Errorf("the task printed no line: %v", err)
		}
	}
	timer := time.AfterFunc(wait, func() { cmd.Process.Signal(syscall.SIGINT) })
	defer timer.Stop()
	io.Copy(io.Discard, lines)
	cmd.Wait()
	var task api.Task
	if out.Len() == 0 {
		return "", "not begun"
	}
	if err := json.Unmarshal([]byte(out.String()), &task); err != nil {
		t.Errorf("%v: %s", err, out.String())
		return "", ""
	}
	return task.ID, task.Outcome
}

// canceledWell looks at what a canceled task left.
func canceledWell(t *testing.T, g *garden, dir string, id api.TaskID) {
	t.Helper()
	task := decode[api.Task](t, g.must("task", "show", "--json", string(id)))
	if task.State != api.TaskDone {
		t.Errorf("%s is %s", id, task.State)
		return
	}
	finished := 0
	for e, err := range g.client().Tasks.Events(t.Context(), id, 0) {
		if err != nil {
			t.Errorf("events of %s: %v", id, err)
			return
		}
		if e.Type == api.EventTaskFinished {
			finished++
		}
	}
	if finished != 1 {
		t.Errorf("%s finished %d times", id, finished)
	}
	if task.Outcome != api.OutcomeCanceled {
		return
	}
	r := task.Receipt
	if r == nil || r.ProcessesLeft != 0 {
		t.Errorf("receipt of %s: %+v", id, r)
		return
	}
	if task.Repo == nil || task.Repo.Head == "" {
		return // nothing had been written
	}
	// What is kept is a commit that applies to what the work started from.
	if !task.Repo.Partial {
		t.Errorf("%s is not marked as partial", id)
	}
	patch := filepath.Join(t.TempDir(), "patch")
	if err := os.WriteFile(patch, []byte(g.must("task", "diff", string(id))), 0o600); err != nil {
		t.Fatal(err)
	}
	gitIn(t, dir, "apply", "--check", patch)
}

// TestTaskDaemonKilled kills the daemon while an agent works on a task that cannot go on, because
// its calls of models are recorded in a file: the next daemon ends it as lost, and what the agent
// had written is a commit. TestTaskSurvives has those that go on.
func TestTaskDaemonKilled(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	g := newGarden(t)
	g.shareKernel()
	lenient(t, g, scenario(t, shell("sed -i 's/a - b/a + b/' calc.py; setsid -f sleep 1000; sleep 1000")))
	withKeys(g, modelKey)
	dir := makeRepo(t, g, small)
	c := g.start("task", "--repo", dir, "--model", "anthropic", "--author", "Ada <ada@example.org>",
		"--record", filepath.Join(t.TempDir(), "calls"), "Fix the failing test")
	var id api.TaskID
	until(t, "the agent works", func() string {
		if daemonOf(g.dir) == 0 {
			return "no daemon"
		}
		tasks, err := g.client().Tasks.List(t.Context(), 1)
		if err != nil || len(tasks) == 0 {
			return "no task"
		}
		id = tasks[0].ID
		for _, p := range reaper.Descendants(daemonOf(g.dir)) {
			if slices.Contains(p.Args, "1000") {
				return ""
			}
		}
		return "it sleeps not yet"
	})
	if err := syscall.Kill(daemonOf(g.dir), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	c.cmd.Process.Kill()
	c.ends()
	task := decode[api.Task](t, g.must("task", "show", "--json", string(id)))
	if task.Outcome != api.OutcomeLost || task.Repo == nil || task.Repo.Head == "" || !task.Repo.Partial {
		t.Fatalf("%s %+v", task.Outcome, task.Repo)
	}
	if diff := g.must("task", "diff", string(id)); !strings.Contains(diff, "+    return a + b") {
		t.Errorf("the work is not there: %s", diff)
	}
}
