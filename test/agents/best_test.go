package agents

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/test/gittest"
	"hortus.dev/test/tier"
	"hortus.dev/test/world"
)

// plan is a script of an agent that runs a command, after a look.
func plan(cmd string) [][]act {
	return [][]act{shells("cat lib.py; cat ready"), shells(cmd), finishes("done")}
}

// plans are scripts of agents with the strategies "plan 1." and so on.
func plans(cmds ...string) map[string][][]act {
	all := map[string][][]act{}
	for n, cmd := range cmds {
		all[fmt.Sprintf("plan %d.", n+1)] = plan(cmd)
	}
	return all
}

// compete has agents with strategies follow scripts. If want is not 0, none gets an answer before so many have asked.
func (m *crew) compete(want int, scripts map[string][][]act) {
	m.begin(want, scripts, nil)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.alone = true
}

// listRepository has a failing test, one that passes, and a set-up.
func listRepository(t *testing.T, heavy string) string {
	return gittest.NewCheckout(t, map[string]string{
		".gitignore": "ready\n__pycache__\n",
		"lib.py":     "def last(items):\n    return items[len(items)]\n\n\ndef first(items):\n    return items[0]\n",
		"test_lib.py": "import unittest\nfrom lib import first, last\n\nclass T(unittest.TestCase):\n    def test_last(self):\n        self.assertEqual(last([1, 2, 3]), 3)\n\n" +
			"    def test_first(self):\n        self.assertEqual(first([1, 2, 3]), 1)\n\n    def test_ready(self):\n        open('ready').close()\n",
		".hortus/setup.yaml": "steps:\n  - name: heavy\n    run: " + heavy + "echo done > ready\n",
	})
}

const (
	mendLast = "sed -i 's/items.len(items)./items[-1]/' lib.py"
	mendLong = mendLast + "; printf '\\n\\nMORE = 1\\n' >> lib.py"
	breaks   = mendLast + "; sed -i 's/items.0./items[1]/' lib.py"
	wrong    = "sed -i 's/items.len(items)./items[0]/' lib.py"
)

// five is a request for five candidates with these plans.
func five(dir, isolation string, b api.BestOf) api.CreateTask {
	b.Of = 5
	for n := range b.Of {
		b.Vary = append(b.Vary, api.Variant{Strategy: fmt.Sprintf("plan %d.", n+1)})
	}
	return api.CreateTask{
		Request: "Fix the failing test", Model: "anthropic", Sandbox: api.CreateSandbox{Isolation: isolation},
		Repo: &api.RepoTask{URL: dir, Verify: "python3 -m unittest", Author: api.Identity{Name: "Ada", Email: "ada@example.org"}, Rounds: -1, Best: &b},
	}
}

// setups counts the steps of set-ups that ran.
func setups(t *testing.T, events []api.Event) (n int) {
	t.Helper()
	for _, e := range events {
		var s api.RepoStepEvent
		if e.Type == api.EventRepoStep && json.Unmarshal(e.Data, &s) == nil && s.Step == "setup" && s.Done && strings.Contains(s.Detail, "heavy") && !strings.HasPrefix(s.Detail, "reused") {
			n++
		}
	}
	return n
}

// onlyTheResult checks that nothing of a task runs, and that only its result has files and a branch.
func onlyTheResult(t *testing.T, w *world.World, task api.Task) {
	t.Helper()
	sandboxes := world.Must(w.Client.Sandboxes.List(t.Context(), false))(t)
	for _, b := range sandboxes {
		if b.Task == task.ID {
			t.Errorf("sandbox %s is left: %s", b.ID, b.State)
		}
	}
	data := string(w.Dir)
	ids := world.Must(w.Workspaces.List())(t)
	for _, id := range ids {
		if row, err := w.Workspaces.Get(id); err == nil && row.Task == task.ID && id != task.Repo.Workspace {
			t.Errorf("workspace %s is left", id)
		}
	}
	repos := world.Must(filepath.Glob(filepath.Join(data, "repositories", "*", "HEAD")))(t)
	more, err := filepath.Glob(filepath.Join(data, "repositories", "*", "*", "HEAD"))
	if repos = append(repos, more...); err != nil || len(repos) == 0 && task.Repo.Commit != "" {
		t.Fatalf("no repository is in the cache: %v", err)
	}
	for _, head := range repos {
		out, err := exec.Command("git", "--git-dir", filepath.Dir(head), "-c", "safe.directory=*", "for-each-ref").CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if strings.Contains(string(out), "-candidate-") {
			t.Errorf("branches are left:\n%s", out)
		}
	}
}

// TestBestOfFive has five agents work in real sandboxes: the set-up is paid once, the only one that passes is taken, a
// regression loses, and of two that pass the smaller one wins.
func TestBestOfFive(t *testing.T) {
	w, m := newWorld(t)
	inEach(t, w, func(t *testing.T, isolation string) {
		for _, tie := range []bool{false, true} {
			t.Run(fmt.Sprint("tie ", tie), func(t *testing.T) {
				if tie && isolation == "gvisor" {
					tier.Soak(t) // who wins does not depend on the backend
				}
				want, fifth := 4, wrong
				if tie {
					want, fifth = 5, mendLast
				}
				m.compete(5, plans(wrong, breaks, "true", mendLong, fifth))
				task, events := world.RunTask(t, w.Client, five(listRepository(t, ""), isolation, api.BestOf{}))
				if task.Outcome != api.OutcomeVerified || len(task.Repo.Candidates) != 5 || !task.Repo.Candidates[want-1].Chosen {
					t.Fatalf("%s %v %s\n%+v", task.Outcome, task.Error, task.Diagnosis, task.Repo)
				}
				if n := setups(t, events); n != 1 {
					t.Errorf("the set-up ran %d times", n)
				}
				for _, r := range task.Repo.Candidates {
					if passed := r.N == 4 || r.N == 5 && tie; r.Passed != passed || r.N == 2 && r.Regressions != 1 || r.Workspace != "" || r.Why == "" {
						t.Errorf("%+v", r)
					}
					text := world.Must(w.Client.Tasks.TranscriptOf(t.Context(), task.ID, r.N))(t)
					said, err := io.ReadAll(text)
					text.Close()
					if err != nil || !strings.Contains(string(said), fmt.Sprintf("plan %d.", r.N)) {
						t.Errorf("the transcript of candidate %d: %v", r.N, err)
					}
				}
				running, most, named := map[int]bool{}, 0, map[int]bool{}
				for _, e := range events {
					var r api.Candidate
					var s api.RepoStepEvent
					if e.Type == api.EventCandidate && json.Unmarshal(e.Data, &r) == nil {
						if delete(running, r.N); r.State == api.CandidateRunning {
							running[r.N] = true
						}
						most = max(most, len(running))
					}
					if e.Type == api.EventRepoStep && json.Unmarshal(e.Data, &s) == nil && s.Candidate > 0 {
						named[s.Candidate] = true
					}
				}
				if most != 5 || len(named) != 5 {
					t.Errorf("%d worked at the same time, events name %v", most, named)
				}
				onlyTheResult(t, w, task)
			})
		}
	})
}

// TestBestOfFiveCanceled cancels at random instants, also while services start and their sandbox is forked: the receipt is true,
// nothing runs, and only the best work is kept.
func TestBestOfFiveCanceled(t *testing.T) {
	w, m := newWorld(t)
	dirs := map[string]string{"container": listRepository(t, ""), "gvisor": serviceRepository(t)}
	cancelAnywhere(t, w, tier.Count(2, 160), 90, func(isolation string) api.CreateTask {
		m.compete(0, plans(wrong, breaks, "sleep 5", mendLong, mendLast))
		return five(dirs[isolation], isolation, api.BestOf{})
	})
}

// cancelAnywhere cancels n tasks, each after a random number of its first events, and checks what is left of it.
func cancelAnywhere(t *testing.T, w *world.World, n, events int, next func(isolation string) api.CreateTask) {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 21))
	canceled := 0
	for i := range n {
		task := world.Must(w.Client.Tasks.Create(t.Context(), next([]string{"container", "gvisor"}[i%2])))(t)
		// An instant is a number of events: it does not depend on how fast the machine is. Each run has its part of them, so that few runs have late ones, too.
		at, seen := 1+(i*events+random.IntN(events))/n, 0
		ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
		for _, err := range w.Client.Tasks.Events(ctx, task.ID, 0) {
			if seen++; err != nil || seen >= at {
				break
			}
		}
		stop()
		task = world.Must(w.Client.Tasks.Cancel(t.Context(), task.ID))(t)
		switch task.Outcome {
		case api.OutcomeCanceled:
			canceled++
			if task.Receipt == nil || task.Receipt.ProcessesLeft != 0 {
				t.Errorf("receipt %+v", task.Receipt)
			}
		case api.OutcomeVerified: // it had ended
		default:
			t.Errorf("%s %v", task.Outcome, task.Error)
		}
		if task.Repo == nil {
			task.Repo = &api.RepoResult{}
		}
		onlyTheResult(t, w, task)
		if t.Failed() {
			t.Fatalf("canceled after %d events, run %d: %+v", seen, i, task.Repo.Candidates)
		}
	}
	t.Logf("%d of %d were canceled before their end", canceled, n)
}

// TestBestOfFiveCosts prints what five candidates need in relation to five tasks one after the other: tasks that each pay the
// set-up, and tasks that share it.
func TestBestOfFiveCosts(t *testing.T) {
	tier.Soak(t)
	w, m := newWorld(t)
	m.think = "delay: 500ms\n"
	run := func(req api.CreateTask) (time.Duration, api.Usage, int) {
		m.compete(0, plans(mendLast, mendLast, mendLast, mendLast, mendLast))
		began := time.Now()
		task, events := world.RunTask(t, w.Client, req)
		if task.Outcome != api.OutcomeVerified {
			t.Fatalf("%s %v %s", task.Outcome, task.Error, task.Diagnosis)
		}
		return time.Since(began), task.Usage, setups(t, events)
	}
	for _, isolation := range []string{"container", "gvisor"} {
		together, usage, once := run(five(listRepository(t, "sleep 3; "), isolation, api.BestOf{}))
		for _, shared := range []bool{false, true} {
			dir := listRepository(t, "sleep 3; ")
			var apart time.Duration
			var used api.Usage
			times := 0
			for n := range 5 {
				if n > 0 && !shared {
					dir = listRepository(t, "sleep 3; ")
				}
				req := five(dir, isolation, api.BestOf{})
				req.Request += "\nApproach for this attempt: " + req.Repo.Best.Vary[n].Strategy
				req.Repo.Best = nil
				took, u, s := run(req)
				apart, used, times = apart+took, used.Add(u), times+s
			}
			t.Logf("%s: best of 5 in %.1f s with %d set-up and %d requests; 5 tasks in %.1f s with %d set-ups and %d requests: %.2f of the time, %.2f of the requests",
				isolation, together.Seconds(), once, usage.Requests, apart.Seconds(), times, used.Requests, together.Seconds()/apart.Seconds(), float64(usage.Requests)/float64(used.Requests))
		}
	}
}
