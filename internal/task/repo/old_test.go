package repo_test

import (
	"os/exec"
	"strings"
	"testing"

	"hortus.dev/api"
)

// TestOldFailures: a test that failed before the work does not decide, if another one shows what the work is good for.
func TestOldFailures(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed")
	}
	red := map[string]string{
		"calc.py": "def add(a, b):\n    return a - b\n\ndef twice(a):\n    return 2 * a\n",
		"test_calc.py": "import unittest, calc\nclass T(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(calc.add(2, 3), 5)\n" +
			"    def test_old(self):\n        self.fail('no network')\n    def test_twice(self):\n        self.assertEqual(calc.twice(2), 4)\n",
	}
	const (
		feature = `printf '\ndef half(a):\n    return a / 2\n' >> calc.py; `
		newTest = `printf 'import unittest, calc\nclass H(unittest.TestCase):\n    def test_half(self):\n        self.assertEqual(%s, 2)\n' "$X" > test_half.py`
	)
	for _, c := range []struct {
		name, does string
		req        api.RepoTask
		outcome    api.Outcome
		rounds     int
		old        string // names of old failures
		says       string
	}{
		{name: "another one is mended", does: mendCalc, outcome: api.OutcomeVerified, rounds: 2, old: "test_calc.T.test_old"},
		{name: "mended without more rounds", does: mendCalc, req: api.RepoTask{Rounds: -1}, outcome: api.OutcomeVerified, rounds: 1, old: "test_calc.T.test_old"},
		{name: "strict", does: mendCalc, req: api.RepoTask{Strict: true, Rounds: -1}, outcome: api.OutcomeNeedsHuman, rounds: 1, says: "The gate fails: "},
		{name: "a feature with its test", does: feature + `X='calc.half(4)'; ` + newTest, req: api.RepoTask{Rounds: -1}, outcome: api.OutcomeVerified, rounds: 1, old: "test_calc.T.test_add test_calc.T.test_old"},
		{name: "a feature with a test that tests nothing", does: feature + "X=2; " + newTest, req: api.RepoTask{Rounds: -1}, outcome: api.OutcomeNeedsHuman, rounds: 1, says: "only by tests that failed before the work as well"},
		{name: "nothing shows the work", does: feature, req: api.RepoTask{Rounds: -1}, outcome: api.OutcomeNeedsHuman, rounds: 1, says: "only by tests that failed before the work as well"},
		{name: "a new failure", does: mendCalc + "; sed -i 's/2 \\* a/3 * a/' calc.py", req: api.RepoTask{Rounds: -1}, outcome: api.OutcomeNeedsHuman, rounds: 1, says: "The gate fails: exit code"},
		{name: "a new test fails", does: mendCalc + "; X=3; " + newTest, req: api.RepoTask{Rounds: -1}, outcome: api.OutcomeNeedsHuman, rounds: 1, says: "The gate fails: exit code"},
		{name: "the old test is edited", does: "sed -i 's/add(2, 3), 5/add(2, 3), -1/' test_calc.py", req: api.RepoTask{Rounds: -1}, outcome: api.OutcomeNeedsHuman, rounds: 1},
		{name: "the old test is removed", does: mendCalc + "; sed -i '/test_old/,+1d' test_calc.py", req: api.RepoTask{Rounds: -1}, outcome: api.OutcomeVerified, rounds: 1, old: "test_calc.T.test_old"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, nowhere{})
			c.req.URL, c.req.Verify = makeRepo(t, red), "python3 -m unittest"
			end, _ := b.do(t.Context(), &scripted{calls: []call{sh(c.does), finish()}}, c.req)
			if end.Outcome != c.outcome || len(end.Result.Rounds) != c.rounds || !strings.Contains(end.Diagnosis, c.says) {
				t.Fatalf("%s after %d rounds: %s %v", end.Outcome, len(end.Result.Rounds), end.Diagnosis, end.Error)
			}
			if end.Outcome != api.OutcomeVerified {
				return
			}
			if got := strings.Join(end.Result.OldFailures(), " "); c.old != "" && got != c.old {
				t.Errorf("old failures %q, want %q", got, c.old)
			}
		})
	}
}
