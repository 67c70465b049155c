package repo_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/agent/model"
	"hortus.dev/test/tier"
)

// red is a repository with two tests that fail. One of them nobody can repair.
var red = map[string]string{
	"calc.py": "def add(a, b):\n    return a - b\n\ndef twice(a):\n    return 2 * a\n",
	"test_calc.py": "import unittest, calc\nclass T(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(calc.add(2, 3), 5)\n" +
		"    def test_old(self):\n        self.fail('no network')\n    def test_twice(self):\n        self.assertEqual(calc.twice(2), 4)\n",
}

// TestOldFailures: tests that failed before the work do not decide if the agent that was told of them leaves them, and a test shows
// what the work does.
func TestOldFailures(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed")
	}
	const (
		feature = `printf '\ndef half(a):\n    return a / 2\n' >> calc.py; `
		newTest = `printf 'import unittest, calc\nclass H(unittest.TestCase):\n    def test_half(self):\n        self.assertEqual(%s, 2)\n' "$X" > test_half.py`
		both    = "test_calc.T.test_add test_calc.T.test_old"
		old     = "test_calc.T.test_old"
	)
	done := func(cmds ...string) (out []call) {
		for _, c := range cmds {
			if c != "" {
				out = append(out, sh(c))
			}
			out = append(out, finish())
		}
		return out
	}
	blocked := call{"finish", map[string]any{"summary": "no", "blocked": "there is no network"}}
	shared, plain := newBench(t, nowhere{}), makeRepo(t, red)
	for _, c := range tier.First(2, []struct {
		name    string
		files   map[string]string
		calls   []call
		req     api.RepoTask
		outcome api.Outcome
		rounds  int
		old     string // the names of the old failures
		untold  bool   // the agent does not learn of them
	}{
		{name: "another one is repaired, and the old one is left", calls: done(mendCalc, ""), outcome: api.OutcomeVerified, rounds: 2, old: old},
		{name: "strict", calls: done(mendCalc, "", ""), req: api.RepoTask{Strict: true}, outcome: api.OutcomeNeedsHuman, rounds: 3, untold: true},
		{name: "a feature with a test that tests nothing", calls: done(feature+"X=2; "+newTest, "", ""), outcome: api.OutcomeNeedsHuman, rounds: 3},
		{name: "a new failure", calls: done(mendCalc+"; sed -i 's/2 \\* a/3 * a/' calc.py", "", ""), outcome: api.OutcomeNeedsHuman, rounds: 3},
		{name: "the old test is edited", calls: done("sed -i 's/add(2, 3), 5/add(2, 3), -1/' test_calc.py", "", ""), outcome: api.OutcomeNeedsHuman, rounds: 3},
		{name: "a file that cannot be read hides its tests", files: map[string]string{"test_net.py": "import no_such_module\n"}, calls: done(mendCalc, "", ""), outcome: api.OutcomeNeedsHuman, rounds: 3},
		{name: "the old one is left at last", calls: done(mendCalc, "echo a > a.txt", ""), outcome: api.OutcomeVerified, rounds: 3, old: old},
		{name: "the agent was not told", calls: done(mendCalc), req: api.RepoTask{Rounds: -1}, outcome: api.OutcomeNeedsHuman, rounds: 1, untold: true},
		{name: "it still changes in the last round", calls: done(mendCalc, "echo a > a.txt"), req: api.RepoTask{Rounds: 1}, outcome: api.OutcomeNeedsHuman, rounds: 2},
		{name: "a seeded defect", calls: done(mendCalc, "", ""), req: api.RepoTask{Mutant: "--- a/calc.py\n+++ b/calc.py\n@@ -4,2 +4,2 @@\n def twice(a):\n-    return 2 * a\n+    return 3 * a\n"}, outcome: api.OutcomeNeedsHuman, rounds: 3},
		{name: "the agent is blocked", calls: []call{sh(mendCalc), finish(), blocked}, outcome: api.OutcomeNeedsHuman, rounds: 2},
		{name: "a feature with its test", calls: done(feature+`X='calc.half(4)'; `+newTest, ""), outcome: api.OutcomeVerified, rounds: 2, old: both},
		{name: "nothing shows the work", calls: done(feature, "", ""), outcome: api.OutcomeNeedsHuman, rounds: 3},
		{name: "a new test fails", calls: done(mendCalc+"; X=3; "+newTest, "", ""), outcome: api.OutcomeNeedsHuman, rounds: 3},
		{name: "the old test is removed", calls: done(mendCalc+"; sed -i '/test_old/,+1d' test_calc.py", ""), outcome: api.OutcomeVerified, rounds: 2, old: old},
		{name: "all are repaired", calls: done(mendCalc + "; sed -i \"s/self.fail('no network')/pass/\" test_calc.py"), req: api.RepoTask{TestsMayChange: true}, outcome: api.OutcomeVerified, rounds: 1, untold: true},
	}) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b, dir := shared.in(t), plain
			if c.files != nil {
				files := maps.Clone(red)
				maps.Copy(files, c.files)
				dir = makeRepo(t, files)
			}
			c.req.URL, c.req.Verify = dir, "python3 -m unittest"
			m := &scripted{calls: c.calls}
			end, _ := b.do(t.Context(), m, c.req)
			if end.Outcome != c.outcome || len(end.Result.Rounds) != c.rounds {
				t.Fatalf("%s after %d rounds: %s %v", end.Outcome, len(end.Result.Rounds), end.Diagnosis, end.Error)
			}
			told := slices.ContainsFunc(m.asked[len(m.asked)-1].Messages, func(x model.Message) bool {
				return x.Role == model.RoleUser && strings.Contains(x.Text, "failed before the work too") && strings.Contains(x.Text, "\n- test_calc.T.test_old\n")
			})
			if told == c.untold {
				t.Errorf("the agent is told of old failures: %v", told)
			}
			if got, count := end.Result.OldFailures(); strings.Join(got, " ") != c.old || count != len(got) {
				t.Errorf("old failures %q of %d, want %q", got, count, c.old)
			}
		})
	}
}

// TestOldFailuresOfCandidates: a candidate that leaves old failures is taken only if none passes on any level.
func TestOldFailuresOfCandidates(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed")
	}
	// A level has two rounds, and in the second one nothing is changed.
	left := func(c call) []call { return []call{c, finish(), finish()} }
	for _, c := range tier.First(2, []struct {
		name    string
		calls   [][]call
		depth   int
		best    int
		outcome api.Outcome
		old     int
	}{
		{"one that passes wins over one that leaves", [][]call{left(fix(1, 2, 3)), {fix(1), finish(), fix(1, 2, 3, 4), finish()}}, 1, 2, api.OutcomeVerified, 0},
		{"none leaves", [][]call{{fix(1), finish(), fix(2), finish()}}, 1, 1, api.OutcomeNeedsHuman, 0},
		{"a search goes on", [][]call{append(left(fix(1, 2, 3)), left(fix(4))...), append(left(fix(1)), left(spoil(1))...)}, 2, 3, api.OutcomeVerified, 0},
		{"the best one that leaves", [][]call{left(fix(1)), left(fix(1, 2, 3)), {fix(2, 3), finish(), fix(1, 2), finish()}}, 1, 2, api.OutcomeVerified, 1},
	}) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, nowhere{})
			end, _ := b.best(t.Context(), candidates(c.calls...), api.RepoTask{URL: makeRepo(t, four), Best: &api.BestOf{Depth: c.depth}, Budget: api.Budget{Steps: 1000}, Rounds: 1})
			rows := end.Result.Candidates
			if end.Outcome != c.outcome || !rows[c.best-1].Chosen {
				t.Fatalf("%s %v %s\n%+v", end.Outcome, end.Error, end.Diagnosis, rows)
			}
			if names, _ := end.Result.OldFailures(); len(names) != c.old {
				t.Errorf("old failures %q, want %d", names, c.old)
			}
			if last := end.Result.Rounds[len(end.Result.Rounds)-1]; last.Gate.Passed != (c.outcome == api.OutcomeVerified) {
				t.Errorf("the gate of the result: %+v", last.Gate)
			}
		})
	}
}

// TestUnstableTests: a test that fails by chance is run again alone, and decides by most of its runs. Each run of the test adds a
// character to a file that outlives the sandboxes.
func TestUnstableTests(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed")
	}
	for _, c := range tier.First(4, []struct {
		name string
		// outcomes are those of the test that changes, one for each run: p is passed, f is failed, also for all further ones.
		outcomes string
		req      api.RepoTask
		outcome  api.Outcome
		runs     int
		says     string // of the test that changes; empty if it is not unstable
	}{
		// A verified one runs once more, in disguise.
		{name: "stable", outcomes: "p", outcome: api.OutcomeVerified, runs: 3},
		{name: "unstable with the change", outcomes: "pfp", outcome: api.OutcomeVerified, runs: 5, says: "unstable: passed 2 of 3 runs"},
		{name: "unstable before too", outcomes: "fppfp", outcome: api.OutcomeVerified, runs: 7, says: "unstable: passed 2 of 3 runs, unstable before the work too"},
		{name: "unstable before alone", outcomes: "fpp", outcome: api.OutcomeVerified, runs: 5},
		{name: "it passes once of three times", outcomes: "pfpf", outcome: api.OutcomeNeedsHuman, runs: 4},
		{name: "it fails twice", outcomes: "pff", outcome: api.OutcomeNeedsHuman, runs: 3},
		{name: "strict", outcomes: "pfp", req: api.RepoTask{Strict: true}, outcome: api.OutcomeNeedsHuman, runs: 2},
	}) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			count := filepath.Join(t.TempDir(), "count")
			files := map[string]string{"calc.py": watched["calc.py"], "test_calc.py": watched["test_calc.py"], "test_chance.py": fmt.Sprintf(
				"import unittest\nclass C(unittest.TestCase):\n    def test_chance(self):\n        with open(%q, 'a+') as f:\n            f.write('x')\n            n = f.tell()\n        self.assertEqual(%q[min(n, %d) - 1], 'p')\n", count, c.outcomes, len(c.outcomes))}
			b := newBench(t, nowhere{})
			c.req.URL, c.req.Verify, c.req.Rounds = makeRepo(t, files), "python3 -m unittest", -1
			end, _ := b.do(t.Context(), &scripted{calls: []call{sh(mendCalc), finish()}}, c.req)
			if end.Outcome != c.outcome {
				t.Fatalf("%s: %s %v", end.Outcome, end.Diagnosis, end.Error)
			}
			if ran, err := os.ReadFile(count); err != nil || len(ran) != c.runs {
				t.Errorf("the test ran %d times, want %d: %v", len(ran), c.runs, err)
			}
			says := ""
			for _, u := range end.Result.Unstable() {
				if says += u.Says(); u.Name != "test_chance.C.test_chance" {
					t.Errorf("%q is unstable", u.Name)
				}
			}
			if says != c.says {
				t.Errorf("it says %q, want %q", says, c.says)
			}
		})
	}
}
