package report_test

import (
	"bytes"
	"crypto/rand"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/internal/task/gate/report"
)

// project is a small repository with its tests.
type project struct {
	command string
	program string // the file under test
	needs   []string
	files   map[string]string
	// wrong is a program that fails the tests.
	wrong string
}

var projects = map[string]project{
	"unittest": {"python3 -m unittest discover", "calc.py", []string{"python3"}, map[string]string{
		"calc.py": "def mean(xs):\n    return sum(xs) / len(xs)\n",
		"test_calc.py": `import unittest
from calc import mean

class MeanTest(unittest.TestCase):
    def test_three(self):
        self.assertEqual(mean([1, 2, 3]), 2)

    def test_two(self):
        self.assertEqual(mean([1, 2]), 1.5)

    @unittest.skip("not yet")
    def test_none(self):
        self.assertEqual(mean([]), 0)
`}, "def mean(xs):\n    return 7\n"},
	"pytest": {"PATH=/usr/bin:/bin python3 -m pytest -q", "calc.py", []string{"python3", "pytest"}, map[string]string{
		"calc.py": "def mean(xs):\n    return sum(xs) / len(xs)\n",
		"test_calc.py": `from calc import mean

def test_three():
    assert mean([1, 2, 3]) == 2

def test_two():
    assert mean([1, 2]) == 1.5
`}, "def mean(xs):\n    return 7\n"},
	"node": {"node --test", "calc.js", []string{"node"}, map[string]string{
		"calc.js": "exports.mean = (xs) => xs.reduce((a, b) => a + b, 0) / xs.length;\n",
		"calc.test.js": `const { test, describe, it } = require('node:test');
const assert = require('node:assert');
const { mean } = require('./calc');

test('three', () => assert.equal(mean([1, 2, 3]), 2));
describe('pairs', () => {
  it('two', () => assert.strictEqual(mean([1, 2]), 1.5));
});
`}, "exports.mean = () => 7;\n"},
	"go": {"go test ./...", "calc.go", []string{"go"}, map[string]string{
		"go.mod":  "module example.org/calc\n\ngo 1.20\n",
		"calc.go": "package calc\n\nfunc Sum(a, b int) int { return a + b }\n",
		"calc_test.go": `package calc

import "testing"

func TestSum(t *testing.T) {
	if Sum(2, 3) != 5 {
		t.Fatal("2 + 3")
	}
}

func TestZero(t *testing.T) {
	if Sum(0, 1) != 1 {
		t.Fatal("0 + 1")
	}
}
`}, "package calc\n\nfunc Sum(a, b int) int { return 5 }\n"},
}

// run runs a project's tests, with some files changed.
func (p project) run(t *testing.T, changed map[string]string) (report.Report, int, string) {
	t.Helper()
	for _, program := range p.needs {
		if program == "pytest" {
			if err := exec.Command("/usr/bin/python3", "-c", "import pytest").Run(); err != nil {
				t.Skip("the system's Python has no pytest")
			}
		} else if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed", program)
		}
	}
	dir, own := t.TempDir(), filepath.Join(t.TempDir(), "gate")
	files := maps.Clone(p.files)
	maps.Copy(files, changed)
	for name, content := range files {
		write(t, filepath.Join(dir, name), []byte(content))
	}
	key := make([]byte, 16)
	_, _ = rand.Read(key)
	run := report.For(p.command).Arm(key, own)
	for _, f := range run.Files {
		write(t, f.Path, f.Content)
	}
	c := exec.Command("sh", "-c", run.Command)
	c.Dir = dir
	c.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "NO_COLOR=1", "GATE="+own)
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	err := c.Run()
	if c.ProcessState == nil {
		t.Fatal(err)
	}
	text := string(run.Stdout(stdout.Bytes())) + string(run.End()) + stderr.String()
	var content []byte
	if run.Path != "" {
		content, _ = os.ReadFile(run.Path)
	}
	return run.Report(content), c.ProcessState.ExitCode(), text
}

func write(t *testing.T, name string, content []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, content, 0o644); err != nil {
		t.Fatal(err)
	}
}

// forgeries make the exit code 0 although the program is wrong. Each is the file under
// test, after which the wrong program stands.
var forgeries = []struct {
	project, name string
	program       string
	before        bool   // the wrong program stands before it
	want          string // of the finding
}{
	{"unittest", "ends the process", "import os\nos._exit(0)\n", false, "ended early"},
	{"unittest", "ends it in a test", "import os\ndef mean(xs):\n    os._exit(0)\n", true, "ended early, in test_calc.MeanTest.test_three"},
	{"unittest", "replaces an assertion", "import unittest\nunittest.TestCase.assertEqual = lambda *a: None\n", false, "unittest.case.TestCase.assertEqual"},
	{"unittest", "replaces the code of an assertion", "import unittest\ndef f(self, first, second, msg=None): pass\nunittest.TestCase.assertEqual.__code__ = f.__code__\n", false, "unittest.case.TestCase.assertEqual"},
	{"unittest", "replaces how a test runs", "import unittest\nunittest.TestCase.run = lambda s, r=None: (r.startTest(s), r.addSuccess(s), r.stopTest(s))\n", false, "unittest.case.TestCase.run"},
	{"unittest", "replaces a test", "import sys\ndef mean(xs):\n    T = sys.modules['test_calc'].MeanTest\n    T.test_two = lambda self: None\n    return 2\n", true, "test_calc.MeanTest.test_two"},
	{"unittest", "replaces an assertion of the test that calls", "import sys\ndef mean(xs):\n    sys._getframe(1).f_locals['self']._testMethodName\n    sys._getframe(1).f_locals['self'].failureException = AttributeError\n    sys._getframe(1).f_locals['self'].assertEqual = print\n    return 2 if len(xs) == 3 else 1.5\n", true, "had its"},
	{"unittest", "skips", "import unittest\ndef mean(xs):\n    raise unittest.SkipTest('later')\n", true, "missing: test_calc.MeanTest.test_three, test_calc.MeanTest.test_two"},
	{"unittest", "equals everything", "class Any:\n    def __eq__(self, other):\n        return True\ndef mean(xs):\n    return Any()\n", true, "Any of calc.py equals everything"},
	{"unittest", "is a number that equals everything", "def mean(xs):\n    return type('N', (float,), {'__eq__': lambda s, o: True})()\n", true, "N of calc.py equals everything"},
	{"unittest", "writes the report", "import os\nwith open(os.environ['GATE'] + '/report', 'w') as f:\n    f.write('0' * 32 + ' {\"end\": 0}\\n')\nos._exit(0)\n", false, "line 1 has another sum"},
	{"unittest", "cuts the report", "import os\ndef mean(xs):\n    open(os.environ['GATE'] + '/report', 'w').close()\n    os._exit(0)\n", true, "gave no report"},
	{"unittest", "forks", "import os\nif os.fork():\n    os._exit(0)\n", false, "ended early"},
	{"pytest", "ends the process", "import os\nos._exit(0)\n", false, "ended early"},
	{"pytest", "replaces how a test runs", "import _pytest.python\n_pytest.python.Function.runtest = lambda self: None\n", false, "_pytest.python.Function.runtest"},
	{"pytest", "skips", "import pytest\ndef mean(xs):\n    pytest.skip('later')\n", true, "missing: test_calc.py::test_three, test_calc.py::test_two"},
	{"pytest", "equals everything", "class Any:\n    def __eq__(self, other):\n        return True\ndef mean(xs):\n    return Any()\n", true, "Any of calc.py equals everything"},
	{"go", "replaces nothing and prints", "package calc\n\nimport (\n\t\"fmt\"\n\t\"os\"\n)\n\nfunc init() {\n\tfmt.Println(\"--- PASS: TestSum (0.00s)\\n--- PASS: TestZero (0.00s)\\nPASS\")\n\tos.Exit(0)\n}\n\nfunc Sum(a, b int) int { return 5 }\n", false, "missing: example.org/calc.TestSum"},
	{"node", "ends the process", "process.exit(0);\n", false, "missing: calc.test.js > pairs"},
	{"node", "registers tests of the same names", "const { test } = require('node:test');\ntest('three', () => {});\ntest('pairs', () => process.exit(0));\n", false, "missing: calc.test.js > pairs"},
	{"go", "ends the process", "package calc\n\nimport \"os\"\n\nfunc init() { os.Exit(0) }\n\nfunc Sum(a, b int) int { return 5 }\n", false, "missing: example.org/calc.TestSum"},
	{"go", "ends it in a test", "package calc\n\nimport \"syscall\"\n\nfunc Sum(a, b int) int { syscall.Exit(0); return 5 }\n", false, "missing: example.org/calc.TestSum"},
}

// TestForgeries: a program that gives its tests' exit code is found out by their report.
// The control is the exit code: it is 0.
func TestForgeries(t *testing.T) {
	t.Parallel()
	for kind, p := range projects {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			before, code, out := p.run(t, nil)
			if f := before.Against(report.Report{}); code != 0 || !before.Ended || before.Count(report.Passed) < 2 || f.Why != "" {
				t.Fatalf("the honest program: exit code %d, %+v, %+v\n%s", code, before, f, out)
			}
			wrong, code, out := p.run(t, map[string]string{p.program: p.wrong})
			if code == 0 || wrong.Count(report.Failed) == 0 {
				t.Fatalf("the wrong program: exit code %d, %+v\n%s", code, wrong, out)
			}
			for _, f := range forgeries {
				if f.project != kind {
					continue
				}
				t.Run(f.name, func(t *testing.T) {
					t.Parallel()
					text := f.program + p.wrong
					if f.before {
						text = p.wrong + f.program
					} else if kind == "go" {
						text = f.program
					}
					r, code, out := p.run(t, map[string]string{p.program: text})
					if code != 0 {
						t.Fatalf("exit code %d: it forges nothing\n%s", code, out)
					}
					for _, base := range []report.Report{before, wrong} {
						found := r.Against(base)
						said := found.Why
						if len(found.Missing) > 0 {
							said += "; missing: " + strings.Join(found.Missing, ", ")
						}
						if !strings.Contains(said, f.want) {
							t.Errorf("found %q, want %q in it\n%+v\n%s", said, f.want, r, out)
						}
					}
				})
			}
		})
	}
}
