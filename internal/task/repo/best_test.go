package repo_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/task/gate"
	"hortus.dev/internal/task/repo"
	"hortus.dev/test/tier"
)

// Discard implements repo.Sandboxes.
func (l *local) Discard(_ context.Context, id api.WorkspaceID) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.spaces, id)
	delete(l.layers, repo.Layer(id))
	return nil
}

// candidates are agents that make these calls.
func candidates(calls ...[]call) (out []repo.Candidate) {
	for i, c := range calls {
		out = append(out, repo.Candidate{Variant: api.Variant{Strategy: fmt.Sprint("plan ", i+1)}, Model: &scripted{calls: c}})
	}
	return out
}

// best runs a task with several candidates.
func (b *bench) best(ctx context.Context, all []repo.Candidate, r api.RepoTask) (repo.End, api.Task) {
	b.t.Helper()
	if r.Best == nil {
		r.Best = &api.BestOf{}
	}
	r.Best.Of = len(all)
	r.Verify = "sh test.sh"
	if _, err := os.Stat(filepath.Join(r.URL, "test_calc.py")); err == nil {
		r.Verify = "python3 -m unittest"
	}
	r.Author = api.Identity{Name: "Ada", Email: "ada@example.org"}
	if r.Rounds == 0 {
		r.Rounds = -1
	}
	if r.Budget.Steps == 0 {
		r.Budget.Steps = 20 * len(all)
	}
	t := api.Task{ID: api.NewTaskID(), Create: api.CreateTask{Request: "Fix the sum", Repo: &r, Schema: b.schema}}
	b.dir = b.t.TempDir()
	end := b.run.Run(ctx, repo.Job{
		Task: t, Candidates: all, Dir: b.dir, Emit: b.facts,
		Save: func(context.Context, api.RepoResult) error { return nil },
	})
	t.Repo = &end.Result
	b.nothingLeft(t, end)
	return end, t
}

// nothingLeft checks that only the result has files and a branch, and that nothing runs.
func (b *bench) nothingLeft(t api.Task, end repo.End) {
	b.t.Helper()
	if n := b.sandboxes.open.Load(); n != 0 {
		b.t.Errorf("%d computers are left", n)
	}
	b.sandboxes.mu.Lock()
	defer b.sandboxes.mu.Unlock()
	for id := range b.sandboxes.spaces {
		if id != end.Result.Workspace {
			b.t.Errorf("workspace %s is left", id)
		}
	}
	found, err := b.cache.Find(t.Create.Repo.URL)
	if err != nil {
		return // nothing was fetched
	}
	dir, err := filepath.Glob(filepath.Join(b.cacheDir, "*", found.Name()))
	if err != nil || len(dir) == 0 {
		dir, _ = filepath.Glob(filepath.Join(b.cacheDir, found.Name()+"*"))
	}
	if len(dir) == 0 {
		b.t.Fatalf("the repository %s is not in the cache", found.Name())
	}
	for _, d := range dir {
		out, err := exec.Command("git", "--git-dir", d, "for-each-ref").Output()
		if err == nil && strings.Contains(string(out), "candidate") {
			b.t.Errorf("branches of candidates are left:\n%s", out)
		}
	}
}

// two is a repository with two functions and their tests, one of which fails.
var two = map[string]string{
	"calc.py": "def add(a, b):\n    return a - b\n\n\ndef double(a):\n    return a + a\n",
	"test_calc.py": "import unittest\nfrom calc import add, double\nclass T(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(add(2, 3), 5)\n" +
		"    def test_double(self):\n        self.assertEqual(double(2), 4)\n",
	"Makefile": "test:\n\tpython3 -m unittest\nlint:\n\t! grep -q TODO calc.py\n",
}

func TestBest(t *testing.T) {
	const (
		clean  = "sed -i 's/a - b/a + b/' calc.py"
		long   = clean + "; printf '\\n\\nX = 1\\nY = 2\\n' >> calc.py"
		todo   = "sed -i 's/a - b/a + b  # TODO/' calc.py; sed -i '/TODO/s/.*/\\ttrue/' Makefile" // as if there were no lint
		breaks = clean + "; sed -i 's/a + a/a/' calc.py"
		liar   = "sed -i 's/a - b/5/' calc.py"
		// They write tests, each other ones.
		tested = long + "; printf '    def test_more(self):\\n        self.assertEqual(add(1, 1), 2)\\n' >> test_calc.py"
		other  = long + "; printf '    def test_other(self):\\n        self.assertEqual(add(7, -3), 4)\\n        self.assertEqual(add(0, 0), 0)\\n' >> test_calc.py"
		wrong  = "sed -i 's/a - b/a * b/' calc.py"
		forged = "sed -i 's/a - b/5 if __import__(\"os\").environ.get(\"CI\") else 7/' calc.py"
		// Its own tests pass, and the one that passed before is gone.
		drops = clean + "; sed -i '/double(self)/,$d' test_calc.py"
	)
	for _, c := range tier.First(3, []struct {
		name    string
		calls   []string
		req     api.RepoTask
		best    int
		outcome api.Outcome
		why     string // of the chosen one
		lost    string // of candidate 1
	}{
		{name: "a regression loses to a clean one", calls: []string{drops, long}, req: api.RepoTask{TestsMayChange: true}, best: 2, outcome: api.OutcomeVerified, why: "0 regressions, against 1", lost: "1 regression, against 0"},
		{name: "a liar loses to those who agree, though smaller", calls: []string{liar, tested, other}, best: 2, outcome: api.OutcomeVerified, why: "8 changed lines, against 9", lost: "it agrees with 0 others, the best one with 1"},
		{name: "none passes", calls: []string{"true", breaks, wrong}, best: 3, outcome: api.OutcomeNeedsHuman, why: "0 regressions, against 1", lost: "The agent changed nothing"},
		{name: "a forgery loses to a repair, though smaller", calls: []string{forged, long}, best: 2, outcome: api.OutcomeVerified, why: "its gate passed", lost: "not in disguise"},
		{name: "the only one that passes", calls: []string{wrong, breaks, long}, best: 3, outcome: api.OutcomeVerified, why: "its gate passed", lost: "The gate fails: exit code 1"},
		{name: "a tie goes to the smaller diff", calls: []string{long, clean}, best: 2, outcome: api.OutcomeVerified, why: "2 changed lines, against 6", lost: "6 changed lines, against 2"},
		{name: "lint decides before size", calls: []string{todo, long}, req: api.RepoTask{TestsMayChange: true}, best: 2, outcome: api.OutcomeVerified, why: "its lint command passed", lost: "its lint command failed"},
	}) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath("python3"); err != nil {
				t.Skip("python3 is not installed")
			}
			b := newBench(t, nowhere{})
			var calls [][]call
			for _, cmd := range c.calls {
				calls = append(calls, []call{sh(cmd), finish()})
			}
			remote := t.TempDir()
			runGit(t, remote, "init", "-q", "--bare")
			c.req.URL, c.req.Push, c.req.Remote = makeRepo(t, two), true, remote
			end, task := b.best(t.Context(), candidates(calls...), c.req)
			rows := end.Result.Candidates
			if end.Outcome != c.outcome || len(rows) != len(c.calls) {
				t.Fatalf("%s %v %s: %+v", end.Outcome, end.Error, end.Diagnosis, rows)
			}
			for _, r := range rows {
				if r.Chosen != (r.N == c.best) || r.State != api.CandidateEnded || r.Why == "" || r.Steps != 2 && r.Steps != 1 {
					t.Errorf("%+v", r)
				}
			}
			if w := rows[c.best-1]; w.Why != c.why || !strings.Contains(rows[0].Why, c.lost) {
				t.Errorf("%q, %q", w.Why, rows[0].Why)
			}
			if end.Usage.Requests != 2*len(rows) || end.Result.Branch != repo.Branch(task.ID) {
				t.Errorf("usage %+v, branch %s", end.Usage, end.Result.Branch)
			}
			refs := runGit(t, remote, "for-each-ref", "--format=%(objectname) %(refname)")
			want := ""
			if c.outcome == api.OutcomeVerified {
				want = end.Result.Head + " refs/heads/" + repo.Branch(task.ID) + "\n"
			} else if !strings.Contains(end.Diagnosis, "None of 3 candidates passed. The best one is candidate 3: ") {
				t.Errorf("diagnosis %q", end.Diagnosis)
			}
			if refs != want {
				t.Errorf("the remote has %q, want %q", refs, want)
			}
			if patch, err := b.run.Diff(t.Context(), task, 0, ""); err != nil {
				t.Error(err)
			} else {
				patch.Close()
			}
			if out, err := gate.OpenOutput(b.dir, 1, api.GateResult); c.outcome == api.OutcomeVerified {
				if err != nil {
					t.Error("the output of the chosen one's gate:", err)
				} else {
					out.Close()
				}
			}
		})
	}
}

// meeting is a model whose first answers wait until all candidates have asked.
type meeting struct {
	*scripted
	all *sync.WaitGroup
	one sync.Once
}

func (m *meeting) Generate(ctx context.Context, req model.Request, d func(model.Delta)) (model.Response, error) {
	m.one.Do(func() { m.all.Done(); m.all.Wait() })
	return m.scripted.Generate(ctx, req, d)
}

// TestBestSideBySide: five agents work at the same time, each with its strategy, its part of the budget, its events and its
// transcript, and the repository is prepared once.
func TestBestSideBySide(t *testing.T) {
	t.Parallel()
	b := newBench(t, nowhere{})
	var together sync.WaitGroup
	together.Add(5)
	var all []repo.Candidate
	for i := range 5 {
		m := &scripted{calls: append(slices.Repeat([]call{sh("echo " + strconv.Itoa(i))}, 4), sh(mend), finish())}
		if i == 3 {
			m.calls = []call{sh(mend), finish()}
		}
		all = append(all, repo.Candidate{Variant: api.Variant{Strategy: fmt.Sprint("plan ", i+1)}, Model: &meeting{scripted: m, all: &together}})
	}
	end, _ := b.best(t.Context(), all, api.RepoTask{URL: makeRepo(t, sum), Budget: api.Budget{Steps: 23}}) // 4 for each
	if end.Outcome != api.OutcomeVerified || !end.Result.Candidates[3].Chosen {
		t.Fatalf("%s %v: %+v", end.Outcome, end.Error, end.Result.Candidates)
	}
	count := map[string]int{}
	for _, s := range b.facts.steps {
		if s.Done {
			count[fmt.Sprintf("%s %d", s.Step, s.Candidate)]++
		}
	}
	for step, want := range map[string]int{"fetch 0": 1, "checkout 0": 1, "gate 0": 1, "sandbox 1": 1, "sandbox 5": 1, "gate 4": 1} {
		if count[step] != want {
			t.Errorf("step %s was done %d times, want %d", step, count[step], want)
		}
	}
	for i, r := range end.Result.Candidates {
		if i != 3 && (r.Steps != 4 || r.Passed) {
			t.Errorf("candidate %d has %d steps of its 4, passed %t", i+1, r.Steps, r.Passed)
		}
		if _, err := os.Stat(repo.TranscriptPath(repo.CandidateDir(b.dir, i+1))); err != nil {
			t.Error("the transcript of a candidate:", err)
		}
		if first := all[i].Model.(*meeting).asked[0].Messages[0].Text; !strings.Contains(first, fmt.Sprint("Approach for this attempt: plan ", i+1)) {
			t.Errorf("candidate %d was asked %q", i+1, first)
		}
	}
}

// waiting is a model that answers when its task ends.
type waiting struct{ began chan struct{} }

func (waiting) Name() string { return "waiting" }
func (w waiting) Generate(ctx context.Context, _ model.Request, _ func(model.Delta)) (model.Response, error) {
	w.began <- struct{}{}
	<-ctx.Done()
	return model.Response{}, ctx.Err()
}

// after is a model that answers when another one has been asked.
type after struct {
	*scripted
	began chan struct{}
	once  sync.Once
}

func (a *after) Generate(ctx context.Context, req model.Request, d func(model.Delta)) (model.Response, error) {
	a.once.Do(func() { <-a.began })
	return a.scripted.Generate(ctx, req, d)
}

// TestFirst: the others end when one has passed.
func TestFirst(t *testing.T) {
	b := newBench(t, nowhere{})
	began := make(chan struct{}, 1)
	all := []repo.Candidate{{Model: waiting{began}}, {Model: &after{scripted: &scripted{calls: []call{sh(mend), finish()}}, began: began}}}
	end, _ := b.best(t.Context(), all, api.RepoTask{URL: makeRepo(t, sum), Best: &api.BestOf{First: true}})
	rows := end.Result.Candidates
	if end.Outcome != api.OutcomeVerified || end.Receipt != nil || !rows[1].Chosen || rows[0].Why != "ended because another candidate passed" {
		t.Fatalf("%s %v: %+v", end.Outcome, end.Error, rows)
	}
}

// TestBestCanceled cancels at instants from the begin to the end: one receipt, nothing runs, and only the best work so far is
// kept. An instant is a number of events of steps: it does not depend on how fast the machine is.
func TestBestCanceled(t *testing.T) {
	once, wrong := []call{sh("echo x >> notes"), sh(mend), finish()}, sh("echo 'echo 4' > sum.sh")
	for name, c := range map[string]struct {
		all   func() []repo.Candidate
		task  api.RepoTask
		count int // of candidates that are made
	}{
		"best": {func() []repo.Candidate { return candidates(once, once, once) }, api.RepoTask{}, 3},
		"search": {func() []repo.Candidate {
			return candidates(levels(wrong, wrong, sh(mend)), levels(wrong, wrong, wrong))
		}, api.RepoTask{Best: &api.BestOf{Depth: 3}, Budget: api.Budget{Steps: 120}}, 6},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run := func(at int) (repo.End, int) {
				b := newBench(t, nowhere{})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				seen := 0
				b.facts.after = func(api.RepoStepEvent) {
					if seen++; seen == at {
						cancel()
					}
				}
				task := c.task
				task.URL = makeRepo(t, sum)
				end, _ := b.best(ctx, c.all(), task)
				return end, seen
			}
			end, whole := run(0)
			if end.Outcome != api.OutcomeVerified || len(end.Result.Candidates) != c.count {
				t.Fatalf("%s %v", end.Outcome, end.Error)
			}
			n, canceled := tier.Count(2, 100), 0
			for i := range n {
				at := 1 + i*(whole-1)/n
				end, _ := run(at)
				switch end.Outcome {
				case api.OutcomeVerified: // it was canceled behind the last thing to do
				case api.OutcomeCanceled:
					canceled++
					if end.Receipt == nil || end.Receipt.ProcessesLeft != 0 {
						t.Errorf("receipt %+v", end.Receipt)
					}
					if wrote := end.Result.Head != ""; wrote != end.Result.Partial {
						t.Errorf("head %q, partial %t", end.Result.Head, end.Result.Partial)
					}
				default:
					t.Fatalf("canceled at %d of %d: %s %v %s", at, whole, end.Outcome, end.Error, end.Diagnosis)
				}
				if t.Failed() {
					t.Fatalf("canceled at %d of %d: %+v", at, whole, end.Result.Candidates)
				}
			}
			if t.Logf("%d of %d were canceled before their end", canceled, n); canceled == 0 {
				t.Error("none was canceled")
			}
		})
	}
}

// TestBestSalvage loses the daemon before the choice: the best work so far is kept, and the rest is removed.
func TestBestSalvage(t *testing.T) {
	t.Parallel()
	b := newBench(t, nowhere{})
	dir := makeRepo(t, sum)
	end, task := b.best(t.Context(), candidates([]call{sh(mend), finish()}, []call{sh("echo 'echo 4' > sum.sh"), finish()}), api.RepoTask{URL: dir})
	if err := b.sandboxes.Discard(t.Context(), end.Result.Workspace); err != nil {
		t.Fatal(err)
	}
	lost := task
	res := api.RepoResult{Commit: end.Result.Commit, Branch: end.Result.Branch}
	for n := 1; n <= 3; n++ {
		ws, err := b.sandboxes.Workspace(t.Context(), task.ID)
		if err != nil {
			t.Fatal(err)
		}
		base, err := b.sandboxes.union(nil)
		if err != nil {
			t.Fatal(err)
		}
		b.sandboxes.layers[repo.Layer(ws)] = stack{dir: base}
		if err := os.WriteFile(filepath.Join(b.sandboxes.spaces[ws].dir, "sum.sh"), []byte(fmt.Sprintln("echo", n)), 0o644); err != nil {
			t.Fatal(err)
		}
		res.Candidates = append(res.Candidates, api.Candidate{N: n, State: api.CandidateRunning, Workspace: string(ws)})
	}
	res.Candidates[1].State, res.Candidates[1].Passed = api.CandidateEnded, true
	lost.Repo = &res
	got := b.run.Salvage(t.Context(), lost)
	if !got.Partial || got.Head == "" || string(got.Workspace) != res.Candidates[1].Workspace || !got.Candidates[1].Chosen {
		t.Fatalf("%+v", got)
	}
	b.nothingLeft(lost, repo.End{Result: got})
}

// TestBestOfSeveralRepositories: the branch of the chosen one is in each repository, with what the candidates before it wrote.
func TestBestOfSeveralRepositories(t *testing.T) {
	one, other := sh("cd a && "+mend), sh("cd b && "+mend)
	for name, c := range map[string]struct {
		all  []repo.Candidate
		best api.BestOf
	}{
		"best":   {candidates([]call{one, finish()}, []call{sh("cd a && " + mend + " && cd ../b && " + mend), finish()}), api.BestOf{Of: 2}},
		"search": {candidates(levels(one, other)), api.BestOf{Of: 1, Depth: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, nowhere{})
			remotes := []string{t.TempDir(), t.TempDir()}
			for _, r := range remotes {
				runGit(t, r, "init", "-q", "--bare")
			}
			r := api.RepoTask{
				URL: makeRepo(t, sum), Name: "a", Remote: remotes[0], Push: true, Verify: "cd a && sh test.sh && cd ../b && sh test.sh",
				Also:   []api.TaskRepository{{Name: "b", URL: makeRepo(t, sum), Remote: remotes[1]}},
				Author: api.Identity{Name: "Ada", Email: "ada@example.org"}, Rounds: -1, Budget: api.Budget{Steps: 20}, Best: &c.best,
			}
			task := api.Task{ID: api.NewTaskID(), Create: api.CreateTask{Request: "Fix the sums", Repo: &r}}
			end := b.run.Run(t.Context(), repo.Job{
				Task: task, Candidates: c.all, Dir: t.TempDir(), Emit: b.facts,
				Save: func(context.Context, api.RepoResult) error { return nil },
			})
			if rows := end.Result.Candidates; end.Outcome != api.OutcomeVerified || len(rows) != 2 || !rows[1].Chosen {
				t.Fatalf("%s %v %s: %+v", end.Outcome, end.Error, end.Diagnosis, rows)
			}
			for i, remote := range remotes {
				want := end.Result.Repositories[i].Head + " refs/heads/" + repo.Branch(task.ID) + "\n"
				if refs := runGit(t, remote, "for-each-ref", "--format=%(objectname) %(refname)"); refs != want {
					t.Errorf("remote %d has %q, want %q", i, refs, want)
				}
			}
			b.nothingLeft(task, end)
		})
	}
}
