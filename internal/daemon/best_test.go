package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/test/modelserver"
	"hortus.dev/test/tier"
	testtools "hortus.dev/test/tools"
)

// plans is a server of models with a scenario for each strategy.
type plans struct {
	t *testing.T
	// of has the scenarios by their strategies; each agent begins a new one. " again" behind a strategy is for agents that
	// continue the work of others.
	of map[string]string
	// servers are those of the current task.
	servers map[string]*modelserver.Server
}

// begin makes the scenarios start again.
func (p *plans) begin() {
	p.servers = map[string]*modelserver.Server{}
	for plan, scenario := range p.of {
		s, err := modelserver.New([]byte(scenario))
		if err != nil {
			p.t.Fatal(err)
		}
		p.servers[plan] = s
	}
}

func (p *plans) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	continues := strings.Contains(string(body), "Continue earlier work on this request.")
	for name, s := range p.servers {
		plan, again := strings.CutSuffix(name, " again")
		if again == continues && strings.Contains(string(body), "Approach for this attempt: "+plan) {
			r.Body = io.NopCloser(bytes.NewReader(body))
			s.ServeHTTP(w, r)
			return
		}
	}
	http.Error(w, "no plan is in the request", http.StatusBadRequest)
}

// plan is a scenario of an agent that runs a command, after some thought.
func plan(cmd string) string {
	in, err := json.Marshal(map[string]string{"command": cmd})
	if err != nil {
		panic(err) // it is a string
	}
	return "-- look --\ndelay: 500ms\ncall: shell\n\n{\"command\": \"cat lib.py; cat ready\"}\n-- work --\ndelay: 500ms\ncall: shell\n\n" + string(in) +
		"\n-- end --\ndelay: 500ms\ncall: finish\n\n{\"summary\": \"done\"}\n"
}

// contestants is a daemon with a scripted model.
func contestants(t *testing.T, of map[string]string) (*town, *client.Client, *plans) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	p := &plans{t: t, of: of}
	p.begin()
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	env := map[string]string{"OPENAI_BASE_URL": server.URL + "/v1", "OPENAI_API_KEY": "k"}
	w := newTownOf(t, Config{
		Home: os.Getenv("HOME"), Path: os.Getenv("PATH"), Runsc: filepath.Join(testtools.Dir(t), testtools.Runsc),
		Getenv: func(name string) string { return env[name] },
	})
	v := &vault{t: t, w: w}
	v.onSocket()
	isolated(t, v.c)
	box, err := v.c.Sandboxes.Create(t.Context(), api.CreateSandbox{})
	if err != nil {
		t.Fatal(err)
	}
	needs(t, box, "python3")
	if _, err := box.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w, v.c, p
}

// listRepository has a failing test, one that passes, and a set-up that takes its time.
func listRepository(t *testing.T) string {
	return repositoryOf(t, map[string]string{
		".gitignore": "ready\n__pycache__\n",
		"lib.py":     "def last(items):\n    return items[len(items)]\n\n\ndef first(items):\n    return items[0]\n",
		"test_lib.py": "import unittest\nfrom lib import first, last\n\nclass T(unittest.TestCase):\n    def test_last(self):\n        self.assertEqual(last([1, 2, 3]), 3)\n\n" +
			"    def test_first(self):\n        self.assertEqual(first([1, 2, 3]), 1)\n\n    def test_ready(self):\n        open('ready').close()\n",
		".hortus/setup.yaml": "steps:\n  - name: heavy\n    run: sleep 3; echo done > ready\n",
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
		Request: "Fix the failing test", Model: "openai:scripted", Sandbox: api.CreateSandbox{Isolation: isolation},
		Repo: &api.RepoTask{URL: dir, Verify: "python3 -m unittest", Author: api.Identity{Name: "Ada", Email: "ada@example.org"}, Rounds: -1, Best: &b},
	}
}

// followed follows a task to its end.
func followed(t *testing.T, c *client.Client, id api.TaskID) (task api.Task, events []api.Event) {
	t.Helper()
	for e, err := range c.Tasks.Events(t.Context(), id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, e)
	}
	task, err := c.Tasks.Get(t.Context(), string(id))
	if err != nil {
		t.Fatal(err)
	}
	return task, events
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
func onlyTheResult(t *testing.T, w *town, c *client.Client, task api.Task) {
	t.Helper()
	boxes, err := c.Sandboxes.List(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range boxes {
		if b.Task == task.ID {
			t.Errorf("sandbox %s is left: %s", b.ID, b.State)
		}
	}
	data := string(w.s.dir)
	ids, err := w.s.workspaces.List()
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		if row, err := w.s.workspaces.Get(id); err == nil && row.Task == task.ID && id != task.Repo.Workspace {
			t.Errorf("workspace %s is left", id)
		}
	}
	repos, err := filepath.Glob(filepath.Join(data, "repositories", "*", "HEAD"))
	if err != nil {
		t.Fatal(err)
	}
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
	t.Parallel()
	w, c, p := contestants(t, map[string]string{"plan 1.": plan(wrong), "plan 2.": plan(breaks), "plan 3.": plan("true"), "plan 4.": plan(mendLong), "plan 5.": plan(wrong)})
	for _, isolation := range []string{"container", "gvisor"} {
		for _, tie := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, tie %t", isolation, tie), func(t *testing.T) {
				want := 4
				if p.of["plan 5."] = plan(wrong); tie {
					p.of["plan 5."], want = plan(mendLast), 5
				}
				p.begin()
				task, err := c.Tasks.Create(t.Context(), five(listRepository(t), isolation, api.BestOf{}))
				if err != nil {
					t.Fatal(err)
				}
				task, events := followed(t, c, task.ID)
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
					text, err := c.Tasks.TranscriptOf(t.Context(), task.ID, r.N)
					if err != nil {
						t.Fatal(err)
					}
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
				onlyTheResult(t, w, c, task)
			})
		}
	}
}

// TestBestOfFiveCanceled cancels at random instants: the receipt is true, nothing runs, and only the best work is kept.
func TestBestOfFiveCanceled(t *testing.T) {
	t.Parallel()
	n := tier.Count(6, 100)
	w, c, p := contestants(t, map[string]string{"plan 1.": plan(wrong), "plan 2.": plan(breaks), "plan 3.": plan("sleep 30"), "plan 4.": plan(mendLong), "plan 5.": plan(mendLast)})
	dir := listRepository(t)
	cancelAnywhere(t, w, c, n, 90, func(isolation string) api.CreateTask {
		p.begin()
		return five(dir, isolation, api.BestOf{})
	})
}

// cancelAnywhere cancels n tasks, each after a random number of its first events, and checks what is left of it.
func cancelAnywhere(t *testing.T, w *town, c *client.Client, n, events int, next func(isolation string) api.CreateTask) {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 21))
	canceled := 0
	for i := range n {
		task, err := c.Tasks.Create(t.Context(), next([]string{"container", "gvisor"}[i%2]))
		if err != nil {
			t.Fatal(err)
		}
		// An instant is a number of events: it does not depend on how fast the machine is.
		at, seen := 1+random.IntN(events), 0
		ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
		for _, err := range c.Tasks.Events(ctx, task.ID, 0) {
			if seen++; err != nil || seen >= at {
				break
			}
		}
		stop()
		if task, err = c.Tasks.Cancel(t.Context(), task.ID); err != nil {
			t.Fatal(err)
		}
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
		onlyTheResult(t, w, c, task)
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
	_, c, p := contestants(t, map[string]string{"plan 1.": plan(mendLast), "plan 2.": plan(mendLast), "plan 3.": plan(mendLast), "plan 4.": plan(mendLast), "plan 5.": plan(mendLast)})
	run := func(req api.CreateTask) (time.Duration, api.Usage, int) {
		p.begin()
		began := time.Now()
		task, err := c.Tasks.Create(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		task, events := followed(t, c, task.ID)
		if task.Outcome != api.OutcomeVerified {
			t.Fatalf("%s %v %s", task.Outcome, task.Error, task.Diagnosis)
		}
		return time.Since(began), task.Usage, setups(t, events)
	}
	for _, isolation := range []string{"container", "gvisor"} {
		together, usage, once := run(five(listRepository(t), isolation, api.BestOf{}))
		for _, shared := range []bool{false, true} {
			dir := listRepository(t)
			var apart time.Duration
			var used api.Usage
			times := 0
			for n := range 5 {
				if n > 0 && !shared {
					dir = listRepository(t)
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
