package repo_test

import (
	"context"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/task/repo"
)

// TestGateThatCannotStart: a task whose gate lacks its runner ends before the first request to a model. What an agent can repair goes to
// the agent.
func TestGateThatCannotStart(t *testing.T) {
	const lacks = `echo "sh: 1: mocha: not found" >&2; exit 127` // as npm says it
	for _, c := range []struct {
		name   string
		verify string
		files  map[string]string
		req    api.RepoTask
		calls  []call
		stops  string // what is named; empty if the agent works
	}{
		{name: "a program that is not there", verify: "no-such-runner --all", stops: "no-such-runner"},
		{name: "a runner that a script calls", verify: lacks, stops: "mocha"},
		{name: "a candidate of several", verify: "sh test.sh", files: map[string]string{"test.sh": lacks}, req: api.RepoTask{Best: &api.BestOf{}}, stops: "mocha"},
		{name: "a script that the agent has to write", verify: "./verify.sh", calls: []call{sh("printf '#!/bin/sh\n' > verify.sh; chmod +x verify.sh"), finish()}},
		{name: "a program of the repository", verify: "PATH=$PWD/bin:$PATH my-runner", files: map[string]string{"lib/my-runner": "exit 0\n"}, calls: []call{finish()}},
		{name: "a program that the request names", verify: "sum", calls: []call{finish()}},
		{name: "a test that fails", verify: "echo 'sum.sh: 1: mochi: not found'; exit 1", calls: []call{finish()}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, nowhere{})
			if c.files == nil {
				c.files = sum
			}
			c.req.URL, c.req.Verify, c.req.Rounds = makeRepo(t, c.files), c.verify, -1
			m := &scripted{calls: c.calls}
			var end repo.End
			if c.req.Best != nil {
				end, _ = b.best(t.Context(), []repo.Candidate{{Model: m, Large: m}}, c.req)
			} else {
				end, _ = b.do(t.Context(), m, c.req)
			}
			if c.stops == "" {
				if len(m.asked) == 0 {
					t.Errorf("the agent was not asked: %s %s %v", end.Outcome, end.Diagnosis, end.Error)
				}
				return
			}
			if end.Outcome != api.OutcomeNeedsHuman || !strings.Contains(end.Diagnosis, "The gate cannot start") || !strings.Contains(end.Diagnosis, "no "+c.stops+" ") || !strings.Contains(end.Question, "--verify") {
				t.Fatalf("%s %v: %s %s", end.Outcome, end.Error, end.Diagnosis, end.Question)
			}
			if len(m.asked) != 0 || len(end.Result.Rounds) != 0 || end.Result.Before == nil {
				t.Errorf("the model was asked %d times in %d rounds", len(m.asked), len(end.Result.Rounds))
			}
		})
	}
}

// incomplete is a setup that installed nothing.
type incomplete []api.NotInstalled

func (s incomplete) Prepare(context.Context, repo.SetupRequest) (repo.SetupResult, error) {
	return repo.SetupResult{NotInstalled: s, Release: func() {}}, nil
}

// TestTestsThatCannotLoad: a task whose tests lack a package that the repository names, and that its setup did not install, ends before
// the first request to a model. A module that nobody names may be what the agent has to write.
func TestTestsThatCannotLoad(t *testing.T) {
	failed := incomplete{{Language: api.Python, Why: "step pip install: exit 1: cannot reach the registry"}}
	const lacks = `echo "E   ModuleNotFoundError: No module named 'freezegun'" >&2; exit 2`
	for _, c := range []struct {
		name  string
		files map[string]string
		setup repo.Setup
		req   api.RepoTask
		calls []call
		stops bool
	}{
		{name: "the setup failed", setup: failed, stops: true},
		{name: "a candidate of several", setup: failed, req: api.RepoTask{Best: &api.BestOf{}}, stops: true},
		{name: "no setup was asked for", setup: failed, req: api.RepoTask{NoSetup: true}, stops: true},
		{name: "the setup is complete", setup: incomplete{}, calls: []call{finish()}},
		{name: "the setup of another language failed", setup: incomplete{{Language: api.Ruby, Why: "x"}}, calls: []call{finish()}},
		{name: "a directory of documents was left out", setup: incomplete{{Why: "docs/package.json has no lock file"}}, calls: []call{finish()}},
		{name: "no manifest names it", setup: failed, files: map[string]string{"requirements.txt": "six==1.16.0\n"}, calls: []call{finish()}},
		{name: "the repository has it", setup: failed, files: map[string]string{"freezegun.py": "1/0\n"}, calls: []call{finish()}},
		{name: "a test passed", setup: failed, files: map[string]string{"test.sh": "exit 0\n"}, calls: []call{finish()}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, nowhere{})
			b.run = repo.New(repo.Config{Git: b.cache, Sandboxes: b.sandboxes, Deliverer: nowhere{}, Setup: c.setup})
			files := map[string]string{"requirements.txt": "freezegun==1.5.0\n", "test.sh": lacks}
			maps.Copy(files, c.files)
			c.req.URL, c.req.Verify, c.req.Rounds = makeRepo(t, files), "sh test.sh", -1
			m := &scripted{calls: c.calls}
			var end repo.End
			if c.req.Best != nil {
				end, _ = b.best(t.Context(), []repo.Candidate{{Model: m, Large: m}}, c.req)
			} else {
				end, _ = b.do(t.Context(), m, c.req)
			}
			if stopped := strings.Contains(end.Diagnosis, "No test could be loaded") && len(m.asked) == 0; stopped != c.stops {
				t.Fatalf("asked %d times: %s %v: %s", len(m.asked), end.Outcome, end.Error, end.Diagnosis)
			}
			if c.stops && (end.Outcome != api.OutcomeNeedsHuman || !strings.Contains(end.Question, "Install freezegun") || !strings.Contains(end.Question, "--verify")) {
				t.Errorf("%s: %s", end.Outcome, end.Question)
			}
		})
	}
}

// TestGateBeforeItsTests: a gate whose first scripts fail with and without the work names the script that runs the tests alone.
func TestGateBeforeItsTests(t *testing.T) {
	for name, c := range map[string]struct{ verify, says string }{
		"npm":     {"npm test || exit 1", "also without a change. To let the tests alone decide: --verify 'npm run --silent unit'."},
		"another": {"exit 1 # npm test", ""},
	} {
		b := newBench(t, nowhere{})
		files := map[string]string{"package.json": `{"scripts":{"test":"npm run format && npm run unit","format":"exit 1","unit":"exit 0"}}`, "a.txt": "1\n"}
		end, _ := b.do(t.Context(), &scripted{calls: []call{sh("echo 2 > a.txt"), finish()}}, api.RepoTask{URL: makeRepo(t, files), Verify: c.verify, Rounds: -1})
		if got := strings.Contains(end.Diagnosis, "To let the tests alone decide"); got != (c.says != "") || !strings.Contains(end.Diagnosis, c.says) {
			t.Errorf("%s: %s: %s %v", name, end.Outcome, end.Diagnosis, end.Error)
		}
	}
}

// TestGateOnly: a dry run of the gate has no agent and leaves no workspace. It ends as the gate does, and needs one.
func TestGateOnly(t *testing.T) {
	for name, c := range map[string]struct {
		verify  string
		outcome api.Outcome
	}{
		"passes": {"echo said", api.OutcomeVerified}, "fails": {"echo said; exit 3", api.OutcomeFailed}, "cannot start": {"no-such-runner", api.OutcomeFailed},
	} {
		b, m := newBench(t, nowhere{}), &scripted{}
		end, _ := b.do(t.Context(), m, api.RepoTask{URL: makeRepo(t, map[string]string{"a.txt": "1"}), Verify: c.verify, GateOnly: true})
		if end.Outcome != c.outcome || len(m.asked) != 0 || end.Result.Workspace != "" || len(end.Result.Rounds) != 0 {
			t.Errorf("%s: %s, %v, %+v", name, end.Outcome, end.Error, end.Result)
		}
		if g := end.Result.Before; g == nil || g.Passed != (c.outcome == api.OutcomeVerified) || end.Error != nil {
			t.Errorf("%s: %+v, %v", name, g, end.Error)
		}
	}
}

// TestTestsOfColours: tests about the variables of colours have none of them set; others have colours off.
func TestTestsOfColours(t *testing.T) {
	for name, want := range map[string]string{"process.env.FORCE_COLOR = '1'": "", "process.env.OTHER = '1'": "1"} {
		b := newBench(t, nowhere{})
		end, _ := b.do(t.Context(), &scripted{calls: []call{finish()}}, api.RepoTask{
			URL: makeRepo(t, map[string]string{"a.test.js": name}), Verify: `test "$NO_COLOR" = "` + want + `"`, Rounds: -1,
		})
		if end.Result.Before == nil || !end.Result.Before.Passed {
			t.Errorf("%s: %s %v", name, end.Diagnosis, end.Error)
		}
	}
}

// TestWithoutTests: where no test command is known the agent works, and the result is kept and not verified.
func TestWithoutTests(t *testing.T) {
	run := func(t *testing.T, req api.RepoTask, calls ...call) (repo.End, *scripted, *bench) {
		b := newBench(t, nowhere{})
		if req.URL == "" {
			req.URL = makeRepo(t, map[string]string{"README": "x\n", "Makefile": "check:\n\truff check .\n"})
		}
		req.Author, req.Budget.Steps, req.Rounds = api.Identity{Name: "Ada", Email: "ada@example.org"}, 20, api.DefaultRounds
		m := &scripted{calls: calls}
		task := api.Task{ID: api.NewTaskID(), Create: api.CreateTask{Request: "Write a greeting", Repo: &req}}
		end := b.run.Run(t.Context(), repo.Job{Task: task, Model: m, Dir: t.TempDir(), Emit: b.facts, Save: func(context.Context, api.RepoResult) error { return nil }})
		return end, m, b
	}
	t.Run("a dry run of the gate", func(t *testing.T) {
		t.Parallel()
		end, m, _ := run(t, api.RepoTask{GateOnly: true})
		if end.Outcome != api.OutcomeFailed || end.Error == nil || end.Error.Kind != api.KindNotFound || end.Result.Before != nil || len(m.asked) != 0 {
			t.Errorf("%s %v", end.Outcome, end.Error)
		}
	})
	t.Run("a change", func(t *testing.T) {
		t.Parallel()
		end, m, b := run(t, api.RepoTask{}, sh("echo hello > greeting"), finish())
		r := end.Result
		if end.Outcome != api.OutcomeNeedsHuman || !strings.HasPrefix(end.Diagnosis, "Changed, not verified: no tests") || !strings.Contains(end.Diagnosis, "the target check of the Makefile only runs ruff") || end.Question == "" {
			t.Fatalf("%s %v: %s %s", end.Outcome, end.Error, end.Diagnosis, end.Question)
		}
		if r.Head == "" || r.Branch == "" || len(r.Files) != 1 || len(r.Rounds) != 1 || r.Partial || r.Before != nil || r.Rounds[0].Gate != nil || r.Verify != "" || r.Delivery != nil {
			t.Errorf("%+v", r)
		}
		if !slices.ContainsFunc(b.facts.steps, func(e api.RepoStepEvent) bool {
			return e.Step == "gate command" && strings.HasPrefix(e.Detail, "none: the repository has no known test command")
		}) {
			t.Errorf("no step says that there is no gate: %+v", b.facts.steps)
		}
		if first := m.asked[0].Messages[0].Text; !strings.Contains(first, "There is no gate command") {
			t.Error(first)
		}
	})
	t.Run("no change", func(t *testing.T) {
		t.Parallel()
		end, m, _ := run(t, api.RepoTask{}, finish())
		if end.Outcome != api.OutcomeNeedsHuman || !strings.HasPrefix(end.Diagnosis, "Nothing was changed, and nothing could verify") || !strings.Contains(end.Diagnosis, "Message of the agent: done") || len(m.asked) != 1 {
			t.Errorf("%s %s, asked %d times", end.Outcome, end.Diagnosis, len(m.asked))
		}
	})
	t.Run("a change that cannot be delivered", func(t *testing.T) {
		t.Parallel()
		end, m, _ := run(t, api.RepoTask{}, sh("ln -s /etc/passwd x; echo hello > greeting"), finish(), sh("rm x"), finish())
		told := m.asked[len(m.asked)-1].Messages
		if len(end.Result.Rounds) != 2 || len(end.Result.Refused) != 0 || end.Result.Head == "" {
			t.Errorf("%s %s %+v", end.Outcome, end.Diagnosis, end.Result)
		}
		if told[len(told)-1].Role != model.RoleTool {
			t.Errorf("%+v", told[len(told)-1])
		}
	})
	t.Run("several repositories", func(t *testing.T) {
		t.Parallel()
		docs := func() string { return makeRepo(t, map[string]string{"README": "x\n"}) }
		end, _, _ := run(t, api.RepoTask{Name: "a", URL: docs(), Also: []api.TaskRepository{{Name: "b", URL: docs()}}}, sh("echo hello > b/greeting"), finish())
		if end.Outcome != api.OutcomeNeedsHuman || !strings.Contains(end.Diagnosis, "none of the 2 repositories has a known test command") || end.Result.Repositories[1].Head == "" {
			t.Errorf("%s %v: %s", end.Outcome, end.Error, end.Diagnosis)
		}
	})
	for name, req := range map[string]api.RepoTask{"push": {Push: true}, "a merge request": {Push: true, MergeRequest: true}, "a seeded defect": {Mutant: "x"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			end, m, _ := run(t, req, sh("echo hello > greeting"), finish())
			if end.Outcome != api.OutcomeFailed || api.KindOf(end.Error) != api.KindNotFound || !strings.Contains(end.Error.Hint, "--verify") || len(m.asked) != 0 {
				t.Errorf("%s %v, asked %d times", end.Outcome, end.Error, len(m.asked))
			}
		})
	}
}

// TestDirectoryOfTheGate: in a monorepo a fix below the directory of the gate's command is no change of a test, and a change of a test
// there still is.
func TestDirectoryOfTheGate(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed")
	}
	files := map[string]string{}
	for name, text := range watched {
		files["packages/calc/"+name] = text
	}
	for name, text := range map[string]string{"check_calc.py": strings.ReplaceAll(watched["test_calc.py"], "from calc", "import sys; sys.path.insert(0, 'packages/calc')\nfrom calc")} {
		files["packages/qa/"+name] = text
	}
	const (
		inside = "cd packages/calc && python3 -m unittest"
		apart  = "python3 -m unittest discover -s packages/qa -p 'check_*.py'"
	)
	for _, c := range []struct {
		name, verify, do string
		outcome          api.Outcome
		test             string // the file that is one
	}{
		{"a fix", inside, "sed -i 's/a - b/a + b/' packages/calc/calc.py", api.OutcomeVerified, ""},
		{"a test is changed", inside, "sed -i s/5/-1/ packages/calc/test_calc.py", api.OutcomeNeedsHuman, "packages/calc/test_calc.py"},
		{"a fix for tests with other names", apart, "sed -i 's/a - b/a + b/' packages/calc/calc.py", api.OutcomeVerified, ""},
		{"a test with another name is changed", apart, "sed -i s/5/-1/ packages/qa/check_calc.py", api.OutcomeNeedsHuman, "packages/qa/check_calc.py"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, nowhere{})
			end, _ := b.do(t.Context(), &scripted{calls: []call{sh(c.do), finish()}}, api.RepoTask{URL: makeRepo(t, files), Verify: c.verify, Rounds: -1})
			if end.Outcome != c.outcome {
				t.Fatalf("%s %v: %s", end.Outcome, end.Error, end.Diagnosis)
			}
			test := ""
			for _, f := range end.Result.Files {
				if f.Test {
					test = f.Path
				}
			}
			if test != c.test || c.test != "" && !strings.Contains(end.Diagnosis, c.test) {
				t.Errorf("the test is %q: %s", test, end.Diagnosis)
			}
		})
	}
}
