package repo_test

import (
	"os/exec"
	"strings"
	"testing"

	"hortus.dev/api"
)

// TestUntested changes a repository whose gate passed before: whether a test touches the
// change shows only in a gate without it.
func TestUntested(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed")
	}
	green := map[string]string{"calc.py": strings.ReplaceAll(watched["calc.py"], "-", "+"), "test_calc.py": watched["test_calc.py"]}
	const feature = `printf 'def double(a):\n    return 3 * a\n' >> calc.py; `
	addTest := func(name, assertion string) string {
		return `printf 'import unittest, calc\nclass D(unittest.TestCase):\n    def test_` + name + `(self):\n        ` + assertion + `\n' > test_` + name + `.py`
	}
	for _, c := range []struct {
		name, does     string
		files          map[string]string
		without        bool // that gate ran
		passes, untold bool // it passed; no test touches the change
	}{
		{"no new test", feature, green, false, false, true},
		{"a test that tests nothing", feature + addTest("double", "self.assertTrue(calc)"), green, true, true, true},
		{"a test that tests it", feature + addTest("double", "self.assertEqual(calc.double(2), 6)"), green, true, false, false},
		{"a test that hangs without it", feature + `printf 'import time, calc, unittest\nwhile not hasattr(calc, "double"): time.sleep(0.05)\nclass H(unittest.TestCase):\n    def test_hang(self): pass\n' > test_hang.py`, green, true, false, false},
		{"a document", "echo text > README.md", green, false, false, false},
		{"tests alone", addTest("again", "self.assertEqual(calc.add(1, 1), 2)"), green, false, false, false},
		{"the gate failed before", mendCalc, watched, false, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, nowhere{})
			end, _ := b.do(t.Context(), &scripted{calls: []call{sh(c.does), finish()}}, api.RepoTask{
				URL: makeRepo(t, c.files), Verify: "python3 -m unittest", Rounds: -1,
			})
			if end.Outcome != api.OutcomeVerified {
				t.Fatalf("%s %s %v", end.Outcome, end.Diagnosis, end.Error)
			}
			g := end.Result.Rounds[0].Without
			if (g != nil) != c.without || g != nil && g.Passed != c.passes || end.Result.Untested() != c.untold {
				t.Errorf("without the change: %+v; untested: %v", g, end.Result.Untested())
			}
		})
	}
}

const mendCalc = "sed -i 's/a - b/a + b/' calc.py"
