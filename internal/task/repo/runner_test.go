package repo_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/repository/forge"
	"hortus.dev/internal/repository/git"
	"hortus.dev/internal/repository/git/cache"
	"hortus.dev/internal/task/repo"
)

// scripted answers with one call after another; when it has none left it says that
// it is done.
type scripted struct {
	mu    sync.Mutex
	calls []call
	asked []model.Request
	next  int
}

type call struct {
	tool  string
	input map[string]any
}

func (s *scripted) Name() string { return "scripted" }

func (s *scripted) Generate(ctx context.Context, req model.Request, _ func(model.Delta)) (model.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, req)
	c := call{"finish", map[string]any{"summary": "done"}}
	if s.next < len(s.calls) {
		c = s.calls[s.next]
	}
	s.next++
	if c.tool == "" { // words alone
		return model.Response{Message: model.Message{Role: model.RoleAssistant, Text: "I am done."}, Stop: model.StopEnd, Usage: api.Usage{Requests: 1}}, nil
	}
	in, err := json.Marshal(c.input)
	return model.Response{
		Message: model.Message{Role: model.RoleAssistant, Calls: []model.Call{{ID: fmt.Sprint("c", s.next), Name: c.tool, Input: in}}},
		Stop:    model.StopTools, Usage: api.Usage{Requests: 1, InputTokens: 100, OutputTokens: 10},
	}, err
}

func sh(cmd string) call { return call{"shell", map[string]any{"command": cmd}} }

func finish() call { return call{"finish", map[string]any{"summary": "done"}} }

// facts keeps what happened.
type facts struct {
	mu    sync.Mutex
	steps []api.RepoStepEvent
	after func(api.RepoStepEvent)
	again []api.RetryEvent
}

func (f *facts) Emit(_ context.Context, t api.EventType, data any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if e, ok := data.(api.RetryEvent); ok && t == api.EventRetry {
		f.again = append(f.again, e)
	}
	if e, ok := data.(api.RepoStepEvent); ok && t == api.EventRepoStep {
		f.steps = append(f.steps, e)
		if f.after != nil {
			f.after(e)
		}
	}
}

// nowhere delivers nothing but by git.
type nowhere struct{ refuse []api.PolicyRefusal }

func (nowhere) Terms(context.Context, repo.Proposal) (repo.Terms, error) {
	return repo.Terms{Prefix: "hortus/"}, nil
}

func (n nowhere) Check(_ context.Context, p repo.Proposal) (repo.Verdict, error) {
	return repo.Verdict{Target: p.Target, Refused: n.refuse}, nil
}
func (nowhere) Open(context.Context, repo.Proposal) (api.Delivery, error) {
	return api.Delivery{}, api.Errorf(api.KindUnsupported, "no forge")
}
func (nowhere) Source(_ context.Context, remote string) (git.Source, error) {
	return git.Source{URL: remote}, nil
}

func (nowhere) Issue(context.Context, string) (forge.Issue, error) {
	return forge.Issue{}, api.Errorf(api.KindUnsupported, "there are no issues here")
}

// sum is a repository whose test fails: sum.sh adds wrongly, test.sh tries it.
var sum = map[string]string{
	"sum.sh":    "echo $(($1 - $2))\n",
	"test.sh":   "test \"$(sh sum.sh 2 3)\" = 5 || { echo 'want 5'; exit 1; }\n",
	"AGENTS.md": "Use two spaces.\n",
}

const mend = `printf 'echo $(($1 + $2))\n' > sum.sh`

func makeRepo(t *testing.T, content map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for p, text := range content {
		os.MkdirAll(filepath.Dir(filepath.Join(dir, p)), 0o755)
		if err := os.WriteFile(filepath.Join(dir, p), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	runGit(t, dir, "init", "-q", "-b", "main")
	runGit(t, dir, "add", "-A")
	runGit(t, dir, "commit", "-q", "-m", "first")
	return dir
}

func runGit(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=A", "-c", "user.email=a@example.org"}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// bench is a runner with its surroundings.
type bench struct {
	t         *testing.T
	sandboxes *local
	cache     *cache.Cache
	run       *repo.Runner
	facts     *facts
	// cacheDir has the repositories, and dir is the folder of the newest task.
	cacheDir, dir string
	known         func(ctx context.Context, round int, output string) []api.KnownFix
	// schema is that of the tasks; nil for none.
	schema json.RawMessage
	// contents names the programs of the sandboxes, and days moves the clock, where a test reads them.
	contents string
	days     int
	// stored are the results that were stored.
	stored []api.RepoResult
}

func newBench(t *testing.T, d repo.Deliverer) *bench {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	cacheDir := filepath.Join(t.TempDir(), "cache")
	cache, err := cache.Open(cache.Config{Dir: cacheDir})
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, sandboxes: newLocal(t), facts: &facts{}, cache: cache, cacheDir: cacheDir}
	b.run = repo.New(repo.Config{Git: cache, Sandboxes: b.sandboxes, Deliverer: d})
	return b
}

// in is the same bench for a subtest, with facts of its own: the rows of a table share the copies of their repositories.
func (b *bench) in(t *testing.T) *bench {
	own := *b
	own.t, own.facts, own.stored = t, &facts{}, nil
	return &own
}

func (b *bench) do(ctx context.Context, m model.Model, r api.RepoTask) (repo.End, api.Task) {
	b.t.Helper()
	if r.Verify == "" {
		r.Verify = "sh test.sh"
	}
	r.Author = api.Identity{Name: "Ada", Email: "ada@example.org"}
	if r.Rounds == 0 {
		r.Rounds = api.DefaultRounds
	}
	if r.Budget.Steps == 0 {
		r.Budget.Steps = 20
	}
	t := api.Task{ID: api.NewTaskID(), Create: api.CreateTask{Request: "Fix the sum\nplease", Repo: &r, Schema: b.schema}}
	b.dir = b.t.TempDir()
	end := b.run.Run(ctx, repo.Job{
		Task: t, Model: m, Dir: b.dir, Emit: b.facts, Known: b.known,
		Save: func(_ context.Context, r api.RepoResult) error {
			b.stored = append(b.stored, r)
			return nil
		},
	})
	t.Repo = &end.Result
	return end, t
}

func TestVerdicts(t *testing.T) {
	passing := map[string]string{"sum.sh": "echo $(($1 + $2))\n", "test.sh": sum["test.sh"]}
	mutant := "--- a/sum.sh\n+++ b/sum.sh\n@@ -1 +1 @@\n-echo $(($1 + $2))\n+echo $(($1 * $2))\n"
	shared, failing, green := newBench(t, nowhere{}), makeRepo(t, sum), makeRepo(t, passing)
	for _, c := range []struct {
		name    string
		green   bool // the gate passed before
		calls   []call
		req     api.RepoTask
		outcome api.Outcome
		rounds  int
		stop    api.StopReason
		says    string // part of the diagnosis
		told    string // part of what the agent is told last
	}{
		{name: "mended", calls: []call{sh(mend), finish()}, outcome: api.OutcomeVerified, rounds: 1, stop: api.StopFinished},
		{name: "a wrong first fix", calls: []call{sh("echo 'echo 4' > sum.sh"), finish(), sh(mend), finish()}, outcome: api.OutcomeVerified, rounds: 2, stop: api.StopFinished, told: "want 5"},
		{name: "a false claim", calls: []call{finish(), finish(), finish()}, outcome: api.OutcomeNeedsHuman, rounds: 3, stop: api.StopFinished, says: "changed nothing"},
		{name: "no second round", calls: []call{sh("echo 'echo 4' > sum.sh"), finish(), sh(mend)}, req: api.RepoTask{Rounds: -1}, outcome: api.OutcomeNeedsHuman, rounds: 1, stop: api.StopFinished, says: "gate fails"},
		{name: "edits the test", calls: []call{sh("echo true > test.sh"), finish()}, req: api.RepoTask{Rounds: -1}, outcome: api.OutcomeNeedsHuman, rounds: 1, stop: api.StopFinished, says: "changes to the tests: test.sh"},
		{name: "deletes everything", calls: []call{sh("rm -rf -- *"), finish()}, req: api.RepoTask{Rounds: -1}, outcome: api.OutcomeNeedsHuman, rounds: 1, stop: api.StopFinished, says: "gate fails"},
		{name: "out of steps with the work done", calls: []call{sh(mend), sh("true"), sh("pwd"), sh("ls")}, req: api.RepoTask{Budget: api.Budget{Steps: 2}}, outcome: api.OutcomeVerified, rounds: 1, stop: api.StopSteps},
		{name: "out of steps without", calls: []call{sh("echo x > y"), sh("true"), sh("pwd"), sh("ls")}, req: api.RepoTask{Budget: api.Budget{Steps: 2}}, outcome: api.OutcomeNeedsHuman, rounds: 1, stop: api.StopSteps, says: "step_budget"},
		{name: "loops", calls: slices.Repeat([]call{sh("ls")}, 20), outcome: api.OutcomeNeedsHuman, rounds: 1, stop: api.StopLoop, says: "repeated_calls"},
		{name: "nothing to do", green: true, calls: []call{finish(), sh("echo x > y")}, outcome: api.OutcomeNeedsHuman, rounds: 1, stop: api.StopFinished, says: "there is no failure to repair: sh test.sh. Message of the agent: done"},
		{name: "nothing to do, and blocked", green: true, calls: []call{{"finish", map[string]any{"summary": "no", "blocked": "I need a key"}}}, outcome: api.OutcomeNeedsHuman, rounds: 1, stop: api.StopFinished, says: "The gate passed before the work, so there is no failure to repair: sh test.sh. Message of the agent: I need a key"},
		{name: "out of steps where all passed before", green: true, calls: []call{sh("echo x > y"), sh("true"), sh("pwd")}, req: api.RepoTask{Budget: api.Budget{Steps: 2}}, outcome: api.OutcomeNeedsHuman, rounds: 1, stop: api.StopSteps},
		{name: "blocked", calls: []call{{"finish", map[string]any{"summary": "no", "blocked": "I need a decision"}}}, outcome: api.OutcomeNeedsHuman, rounds: 1, stop: api.StopFinished, says: "I need a decision"},
		{name: "new tests that test nothing", green: true, calls: []call{sh("echo true > more_test.sh; echo true > test.sh"), finish()},
			req: api.RepoTask{Rounds: -1, Mutant: mutant, TestsMayChange: true}, outcome: api.OutcomeNeedsHuman, rounds: 1, stop: api.StopFinished, says: "do not detect"},
		{name: "new tests that test nothing at first", green: true, calls: []call{sh("echo true > test.sh"), finish(), sh(`echo 'test "$(sh sum.sh 4 4)" = 8' > test.sh`), finish()},
			req: api.RepoTask{Mutant: mutant, TestsMayChange: true}, outcome: api.OutcomeVerified, rounds: 2, stop: api.StopFinished, told: "a seeded defect"},
		{name: "new tests that test", green: true, calls: []call{sh(`echo 'test "$(sh sum.sh 4 4)" = 8 || exit 1' >> test.sh`), finish()},
			req: api.RepoTask{Rounds: -1, Mutant: mutant}, outcome: api.OutcomeVerified, rounds: 1, stop: api.StopFinished},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b, dir := shared.in(t), failing
			if c.green {
				dir = green
			}
			c.req.URL = dir
			m := &scripted{calls: c.calls}
			end, _ := b.do(t.Context(), m, c.req)
			if end.Outcome != c.outcome || len(end.Result.Rounds) != c.rounds || !strings.Contains(end.Diagnosis, c.says) {
				t.Fatalf("%s after %d rounds: %s %v\n%+v", end.Outcome, len(end.Result.Rounds), end.Diagnosis, end.Error, end.Result)
			}
			if got := end.Result.Rounds[c.rounds-1].Stop; got != c.stop {
				t.Errorf("stop %s, want %s", got, c.stop)
			}
			last := m.asked[len(m.asked)-1].Messages
			if i := slices.IndexFunc(last, func(x model.Message) bool { return x.Role == model.RoleUser && strings.Contains(x.Text, c.told) }); i < 0 || c.told != "" && i == 0 {
				t.Errorf("the agent is not told %q: %+v", c.told, last)
			}
			if s := runGit(t, dir, "status", "--porcelain"); s != "" || runGit(t, dir, "branch", "--list", "hortus/*") != "" {
				t.Errorf("the person's checkout was written: %q", s)
			}
		})
	}
}

// watched is a repository whose tests have the usual names.
var watched = map[string]string{
	"calc.py":      "def add(a, b):\n    return a - b\n",
	"test_calc.py": "import unittest\nfrom calc import add\nclass T(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(add(2, 3), 5)\n",
}

// TestTestsAreNotTheWayOut lets the gate pass by other means than mending.
func TestTestsAreNotTheWayOut(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed")
	}
	shared, dir := newBench(t, nowhere{}), makeRepo(t, watched)
	for name, trick := range map[string]string{
		"edits the test":    "sed -i s/5/-1/ test_calc.py",
		"deletes the test":  `printf 'import unittest\nclass T(unittest.TestCase):\n    def test_x(self): pass\n' > test_calc.py`,
		"moves it away":     `git mv test_calc.py old.py 2>/dev/null || mv test_calc.py old.py; printf 'import unittest\nclass T(unittest.TestCase):\n    def test_x(self): pass\n' > test_a.py`,
		"shadows unittest":  `printf 'import sys\nsys.exit(0)\n' > unittest.py`,
		"a sitecustomize":   `printf 'import os\nos._exit(0)\n' > sitecustomize.py; export X=1`,
		"a second test run": `printf 'import os\nos._exit(0)\n' > test_a.py`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			end, _ := shared.in(t).do(t.Context(), &scripted{calls: []call{sh(trick), finish()}}, api.RepoTask{
				URL: dir, Verify: "python3 -m unittest", Rounds: -1,
			})
			if end.Outcome != api.OutcomeNeedsHuman {
				t.Fatalf("%s %v: %+v", end.Outcome, end.Error, end.Result)
			}
			if !slices.ContainsFunc(end.Result.Files, func(f api.FileChange) bool { return f.Test }) {
				t.Errorf("no file is named as a test: %+v", end.Result.Files)
			}
		})
	}
	t.Run("control: mended", func(t *testing.T) {
		end, _ := shared.in(t).do(t.Context(), &scripted{calls: []call{sh("sed -i 's/a - b/a + b/' calc.py; sed -i '$a # tested' test_calc.py"), finish()}}, api.RepoTask{
			URL: dir, Verify: "python3 -m unittest", Rounds: -1,
		})
		r := end.Result.Rounds[0]
		if end.Outcome != api.OutcomeVerified || r.Original == nil || !r.Original.Passed {
			t.Fatalf("%s %v: %+v", end.Outcome, end.Error, end.Result)
		}
	})
}

func TestResult(t *testing.T) {
	t.Parallel()
	b := newBench(t, nowhere{})
	dir := makeRepo(t, sum)
	remote := t.TempDir()
	runGit(t, remote, "init", "-q", "--bare")
	m := &scripted{calls: []call{sh(mend), finish()}}
	end, task := b.do(t.Context(), m, api.RepoTask{URL: dir, Push: true, Remote: remote, Context: []api.Document{{Name: "spec", Text: "Sums add."}}})
	if end.Outcome != api.OutcomeVerified || end.Result.Delivery == nil || end.Result.Delivery.Error != nil {
		t.Fatalf("%s %v %+v", end.Outcome, end.Error, end.Result.Delivery)
	}
	if end.Result.Before == nil || end.Result.Before.Passed {
		t.Errorf("before: %+v", end.Result.Before)
	}
	log := runGit(t, remote, "log", "-1", "--format=%an <%ae>%n%B", repo.Branch(task.ID))
	for _, want := range []string{"Ada <ada@example.org>\nChange sum.sh\n", "Hortus-Task: " + string(task.ID), "Co-authored-by: Hortus"} {
		if !strings.Contains(log, want) {
			t.Errorf("the commit misses %q:\n%s", want, log)
		}
	}
	patch, err := b.run.Diff(t.Context(), task, 0, "")
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(patch)
	patch.Close()
	if !strings.Contains(string(text), "+echo $(($1 + $2))") {
		t.Errorf("the patch: %s", text)
	}
	bundle, err := b.run.Bundle(t.Context(), task, "")
	if err != nil {
		t.Fatal(err)
	}
	bundle.Close()
	first := m.asked[0].Messages[0].Text
	for _, want := range []string{"Fix the sum", "Gate command: sh test.sh\n", "Use two spaces.", "Sums add.", "sum.sh"} {
		if !strings.Contains(first, want) {
			t.Errorf("the brief misses %q:\n%s", want, first)
		}
	}
	// Once more: the same commit is there already.
	if end.Usage.Requests != 2 || end.Usage.InputTokens != 200 {
		t.Errorf("usage %+v", end.Usage)
	}
}

func TestPolicyRefuses(t *testing.T) {
	t.Parallel()
	b := newBench(t, nowhere{refuse: []api.PolicyRefusal{{Rule: "forbidden", Path: "ci", Why: "ci is not an agent's"}}})
	remote := t.TempDir()
	runGit(t, remote, "init", "-q", "--bare")
	end, _ := b.do(t.Context(), &scripted{calls: []call{sh(mend), finish()}}, api.RepoTask{URL: makeRepo(t, sum), Push: true, Remote: remote})
	d := end.Result.Delivery
	if end.Outcome != api.OutcomeVerified || d == nil || d.Error == nil || d.Error.Kind != api.KindDenied || d.Pushed != "" || len(d.Refused) != 1 {
		t.Fatalf("%s %+v", end.Outcome, d)
	}
	if out := runGit(t, remote, "for-each-ref"); out != "" {
		t.Errorf("something was pushed: %s", out)
	}
}

// TestCanceledAnywhere cancels at the beginning and at the end of every step.
func TestCanceledAnywhere(t *testing.T) {
	t.Parallel()
	for n := 1; ; n++ {
		b := newBench(t, nowhere{})
		ctx, cancel := context.WithCancel(t.Context())
		seen := 0
		b.facts.after = func(api.RepoStepEvent) {
			if seen++; seen == n {
				cancel()
			}
		}
		end, _ := b.do(ctx, &scripted{calls: []call{sh(mend), finish()}}, api.RepoTask{URL: makeRepo(t, sum)})
		cancel()
		if seen < n {
			if end.Outcome != api.OutcomeVerified || n < 8 {
				t.Fatalf("%s after %d steps", end.Outcome, seen)
			}
			return
		}
		if end.Outcome == api.OutcomeVerified {
			continue // it was canceled behind the last thing to do
		}
		if end.Outcome != api.OutcomeCanceled || end.Receipt == nil || end.Receipt.ProcessesLeft != 0 {
			t.Fatalf("canceled at %d: %s %v %+v", n, end.Outcome, end.Error, end.Receipt)
		}
		// What was written is kept, and marked.
		wrote := slices.ContainsFunc(end.Result.Rounds, func(r api.Round) bool { return r.Steps > 0 })
		if wrote && (end.Result.Head == "" || !end.Result.Partial) {
			t.Errorf("canceled at %d, and the work is not kept: %+v", n, end.Result)
		}
	}
}

// TestSalvage loses the daemon while the agent works.
func TestSalvage(t *testing.T) {
	t.Parallel()
	b := newBench(t, nowhere{})
	ctx, cancel := context.WithCancel(t.Context())
	b.facts.after = func(e api.RepoStepEvent) {
		if e.Step == "agent" && e.Done {
			cancel()
		}
	}
	_, task := b.do(ctx, &scripted{calls: []call{sh(mend), finish()}}, api.RepoTask{URL: makeRepo(t, sum)})
	lost := task
	lost.Repo = &api.RepoResult{Commit: task.Repo.Commit, Branch: task.Repo.Branch, Workspace: task.Repo.Workspace, Rounds: []api.Round{{N: 1}}}
	got := b.run.Salvage(t.Context(), lost)
	if got.Head == "" || !got.Partial || len(got.Files) != 1 || got.Files[0].Path != "sum.sh" {
		t.Fatalf("%+v", got)
	}
	// What is not there is not invented.
	lost.Repo.Workspace = ""
	if got := b.run.Salvage(t.Context(), lost); got.Head != "" || got.Partial {
		t.Errorf("%+v", got)
	}
}
