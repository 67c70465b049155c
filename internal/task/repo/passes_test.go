package repo_test

import (
	"context"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/task/repo"
	"hortus.dev/test/tier"
)

// telling is sum with a test that prints what it got.
var telling = map[string]string{
	"sum.sh":   "echo $(($1 - $2))\n",
	"test.sh":  "got=$(sh sum.sh 2 3); test \"$got\" = 5 || { echo \"want 5, got $got, in 0.$$s\"; exit 1; }\n",
	"check.sh": "test -f done.txt\n",
}

func prints(text string) call { return sh("echo 'echo " + text + "' > sum.sh") }

// TestPasses: new agents work one after the other until the command passes or nothing moves, and nothing that they say ends it.
func TestPasses(t *testing.T) {
	blocked := call{"finish", map[string]any{"summary": "ALL DONE", "blocked": "I may not"}}
	done := call{"finish", map[string]any{"summary": "ALL DONE: the command passes"}}
	every := "for t in test*.sh; do test ! -e $t || sh $t || exit 1; done"
	dir := makeRepo(t, telling)
	for _, c := range tier.First(7, []struct {
		name    string
		calls   []call
		req     api.RepoTask
		outcome api.Outcome
		stopped api.StopReason
		passes  int
		says    string // part of the diagnosis
		told    string // part of the first message of the last pass
	}{
		{name: "the third passes", calls: []call{prints("4"), done, prints("6"), done, sh(mend), done}, outcome: api.OutcomeVerified, stopped: api.StopPassed, passes: 3, told: "want 5, got 6"},
		{name: "the first passes", calls: []call{sh(mend), done}, outcome: api.OutcomeVerified, stopped: api.StopPassed, passes: 1, told: "want 5, got -1"},
		{name: "a word without work", calls: []call{done}, outcome: api.OutcomeNeedsHuman, stopped: api.StopUnchanged, passes: 1, says: "pass 1 changed nothing. Message of the agent: ALL DONE"},
		{name: "a second pass that changes nothing", calls: []call{prints("4"), done, done}, outcome: api.OutcomeNeedsHuman, stopped: api.StopUnchanged, passes: 2, says: "pass 2 changed nothing", told: "modified sum.sh (+1 -1)"},
		{name: "the same failures", calls: []call{prints("4"), done, sh("echo x > y"), done}, outcome: api.OutcomeNeedsHuman, stopped: api.StopSameFailures, passes: 2, says: "passes 1 and 2 left the same failures. sh test.sh fails: exit code 1"},
		{name: "the maximum", calls: []call{prints("4"), done, prints("6"), done, sh(mend)}, req: api.RepoTask{Passes: 2}, outcome: api.OutcomeNeedsHuman, stopped: api.StopPasses, passes: 2, says: "maximum number of passes (2)"},
		{name: "steps", calls: []call{prints("4"), done, prints("6"), sh("ls")}, req: api.RepoTask{Budget: api.Budget{Steps: 3}}, outcome: api.OutcomeNeedsHuman, stopped: api.StopSteps, passes: 2, says: "step_budget", told: "later ones: 1 steps"},
		{name: "tokens", calls: []call{prints("4"), done, prints("6"), sh("ls")}, req: api.RepoTask{Budget: api.Budget{Tokens: 300}}, outcome: api.OutcomeNeedsHuman, stopped: api.StopTokens, passes: 2, says: "token_budget"},
		{name: "blocked is a word", calls: []call{prints("4"), blocked, sh(mend), done}, outcome: api.OutcomeVerified, stopped: api.StopPassed, passes: 2},
		{name: "rewrites the test", calls: []call{sh("echo true > test.sh"), done, sh("echo x > y"), done}, outcome: api.OutcomeNeedsHuman, stopped: api.StopSameFailures, passes: 2, says: "left the same failures", told: "restored every test file"},
		{name: "deletes the failing test", calls: []call{sh("rm test.sh"), done, sh("echo x > y"), done}, req: api.RepoTask{Until: every}, outcome: api.OutcomeNeedsHuman, stopped: api.StopSameFailures, passes: 2, told: "restored every test file"},
		{name: "deletes it, with leave", calls: []call{sh("rm test.sh"), done}, req: api.RepoTask{Until: every, TestsMayChange: true}, outcome: api.OutcomeVerified, stopped: api.StopPassed, passes: 1},
		{name: "beside a gate", calls: []call{sh(mend), done, sh("echo > done.txt"), done}, req: api.RepoTask{Until: "sh check.sh", Verify: "sh test.sh"}, outcome: api.OutcomeVerified, stopped: api.StopPassed, passes: 2, told: "Command: sh check.sh"},
		{name: "beside a gate that fails", calls: []call{sh("echo > done.txt"), done, prints("4"), done}, req: api.RepoTask{Until: "sh check.sh", Verify: "sh test.sh", Passes: 2}, outcome: api.OutcomeNeedsHuman, stopped: api.StopPasses, passes: 2, says: "sh test.sh fails"},
		{name: "rewrites the command", calls: []call{sh(mend + "; echo true > check.sh"), done, sh("echo x > y"), done}, req: api.RepoTask{Until: "sh check.sh", Verify: "sh test.sh"}, outcome: api.OutcomeNeedsHuman, stopped: api.StopSameFailures, passes: 2, says: "With the original tests, sh check.sh fails"},
	}) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, nowhere{}) // its files of progress are counted
			r := c.req
			r.URL, r.Rounds = dir, -1
			if r.Until == "" {
				r.Until = "sh test.sh"
			}
			if r.Verify == "" {
				r.Verify = r.Until
			}
			if r.Passes == 0 {
				r.Passes = api.DefaultPasses
			}
			m := &scripted{calls: c.calls}
			end, _ := b.do(t.Context(), m, r)
			if end.Outcome != c.outcome || end.Result.Stopped != c.stopped || len(end.Result.Rounds) != c.passes || !strings.Contains(end.Diagnosis, c.says) {
				t.Fatalf("%s, %s after %d passes: %s %v", end.Outcome, end.Result.Stopped, len(end.Result.Rounds), end.Diagnosis, end.Error)
			}
			if c.outcome == api.OutcomeNeedsHuman && end.Question == "" {
				t.Error("no question is asked")
			}
			var firsts []model.Request
			for _, req := range m.asked {
				if len(req.Messages) == 1 {
					firsts = append(firsts, req)
				}
			}
			if len(firsts) != c.passes || len(b.sandboxes.progress) != c.passes {
				t.Fatalf("%d conversations and %d files of progress in %d passes", len(firsts), len(b.sandboxes.progress), c.passes)
			}
			for i, req := range firsts {
				if text := req.Messages[0].Text; !strings.HasSuffix(text, b.sandboxes.progress[i]) || strings.Contains(text, "ALL DONE") || !strings.HasPrefix(text, "Request:\nFix the sum") {
					t.Errorf("pass %d begins with %s", i+1, text)
				}
			}
			if text := b.sandboxes.progress[c.passes-1]; !strings.Contains(text, c.told) {
				t.Errorf("the last agent is not told %q: %s", c.told, text)
			}
			for _, f := range end.Result.Files {
				if strings.Contains(f.Path, "progress") {
					t.Errorf("the result has %s", f.Path)
				}
			}
		})
	}
}

// TestPassesOldFailures: a test that failed before the work does not keep a command from passing that stands beside the gate. The control is
// the same gate as the command: its exit code decides.
func TestPassesOldFailures(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed")
	}
	files := map[string]string{
		"calc.py":      watched["calc.py"],
		"test_calc.py": watched["test_calc.py"] + "    def test_old(self):\n        self.assertEqual(1, 2)\n",
	}
	for until, want := range map[string]api.StopReason{"python3 -c 'import calc; assert calc.add(2, 3) == 5'": api.StopPassed, "python3 -m unittest": api.StopSameFailures} {
		b := newBench(t, nowhere{})
		end, _ := b.do(t.Context(), &scripted{calls: []call{sh(mendCalc), finish(), sh("echo '# more' >> calc.py"), finish()}}, api.RepoTask{
			URL: makeRepo(t, files), Verify: "python3 -m unittest", Until: until, Passes: 5, Rounds: -1,
		})
		if end.Result.Stopped != want || want == api.StopSameFailures && !strings.Contains(end.Diagnosis, "1 failed before the work too") {
			t.Errorf("%s: %s, %s: %s", until, end.Outcome, end.Result.Stopped, end.Diagnosis)
		}
	}
}

// TestPassesOfPrograms: an agent that is a program begins a new conversation in each pass.
func TestPassesOfPrograms(t *testing.T) {
	b := newBench(t, nowhere{})
	h := &hands{sandboxes: b.sandboxes, scripts: []string{"echo 'echo 4' > sum.sh", "echo 'echo 6' > sum.sh", mend}}
	b.run = repo.New(repo.Config{Git: b.cache, Sandboxes: b.sandboxes, Deliverer: nowhere{}, Runtimes: h})
	task := api.Task{ID: api.NewTaskID(), Create: api.CreateTask{Request: "Fix the sum", Repo: &api.RepoTask{
		URL: makeRepo(t, telling), Verify: "sh test.sh", Until: "sh test.sh", Passes: 5, Agent: "hands", Author: api.Identity{Name: "Ada", Email: "ada@example.org"},
	}}}
	end := b.run.Run(t.Context(), repo.Job{Task: task, Agent: "hands", Dir: t.TempDir(), Emit: b.facts, Save: func(context.Context, api.RepoResult) error { return nil }})
	if end.Outcome != api.OutcomeVerified || end.Result.Stopped != api.StopPassed || len(end.Result.Rounds) != 3 {
		t.Fatalf("%s, %s: %s %v", end.Outcome, end.Result.Stopped, end.Diagnosis, end.Error)
	}
	var kinds []string
	for _, m := range h.messages {
		if m != "fresh" && strings.HasPrefix(m, "Request:\nFix the sum") {
			m = "request"
		}
		kinds = append(kinds, m)
	}
	if want := []string{"request", "fresh", "request", "fresh", "request"}; !slices.Equal(kinds, want) {
		t.Errorf("the agent heard %q", kinds)
	}
}

// TestPassesContinue: a reply has new passes. A pass that leaves the files of the task before as they were is not one that changed them.
func TestPassesContinue(t *testing.T) {
	b, dir := newBench(t, nowhere{}), makeRepo(t, telling)
	r := api.RepoTask{URL: dir, Ref: "main", Until: "sh test.sh", Passes: 1, Rounds: -1}
	first, old := b.do(t.Context(), &scripted{calls: []call{prints("4"), finish()}}, r)
	if first.Result.Stopped != api.StopPasses {
		t.Fatal(first.Result.Stopped, first.Diagnosis)
	}
	old.Diagnosis, old.Question = first.Diagnosis, first.Question
	next := old
	next.ID, next.Continues, next.Reply, next.Repo = api.NewTaskID(), old.ID, "Go ahead.", nil
	end := b.run.Run(t.Context(), repo.Job{Task: next, Model: &scripted{calls: []call{finish()}}, Earlier: []repo.EarlierTask{{Task: old, Dir: t.TempDir()}}, Dir: t.TempDir(), Emit: b.facts,
		Save: func(context.Context, api.RepoResult) error { return nil }})
	if end.Result.Stopped != api.StopUnchanged || len(end.Result.Files) != 1 {
		t.Errorf("%s, %s: %v", end.Outcome, end.Result.Stopped, end.Result.Files)
	}
}
