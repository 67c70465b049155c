package offline

import (
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent/model/offline/repair/diagnosis"
)

// repairProgram runs a program and lets the Debugger correct it, at most three attempts
// in all, as the pipeline does.
func repairProgram(t *testing.T, m *Model, plan api.ExecutionPlan, a api.CodeArtifact, timeout time.Duration) (last api.ExecutionResult, diagnoses []string, question string) {
	t.Helper()
	var tried []api.CodeArtifact
	for range 3 {
		last = runLocal(t, a, timeout)
		if last.OK {
			return last, diagnoses, ""
		}
		d := m.diagnose(api.DebugRequest{Plan: plan, Artifact: a, Result: last, Tried: tried})
		if d.Cause == "" {
			t.Error("a diagnosis without a cause")
		}
		diagnoses = append(diagnoses, d.Cause)
		if d.Artifact == nil {
			if d.Question == "" {
				t.Error("neither an artifact nor a question")
			}
			return last, diagnoses, d.Question
		}
		for _, b := range append(tried, a) {
			if diagnosis.Same(b, *d.Artifact) {
				t.Error("an artifact came back that was tried")
			}
		}
		tried = append(tried, a)
		a = *d.Artifact
	}
	return last, diagnoses, ""
}

// broken programs of users, and what they print once they are repaired; an empty
// output means that only a person can know, and the Debugger must ask.
var broken = []struct{ name, sentence, output string }{
	{"missing import", "Run this Python: print(math.sqrt(16))", "4.0\n"},
	{"missing from-import", "Run this Python: print(Counter('aab').most_common(1))", "[('a', 2)]\n"},
	{"datetime", "Run this Python:\n```python\nd = datetime(2024, 1, 2)\nprint(d.year)\n```", "2024\n"},
	{"misspelt module", "Run this Python:\n```python\nimport maths\nprint(maths.floor(2.5))\n```", "2\n"},
	{"misspelt name", "Run this:\n```python\ntotal = 3\nprint(totl)\n```", "3\n"},
	{"misspelt builtin", "Run this:\n```python\npritn('x')\n```", "x\n"},
	{"misspelt attribute", "Run this:\n```python\nprint('x'.uper())\n```", "X\n"},
	{"colon", "Fix and run this code:\n```python\nfor i in range(2)\n    print(i)\n```", "0\n1\n"},
	{"print statement", "Run this:\n```python\nprint 'a', 1\nprint \"b\"\n```", "a 1\nb\n"},
	{"bracket", "Run this:\n```python\nx = [1, 2, 3\nprint(sum(x))\n```", "6\n"},
	{"paren", "Run this:\n```python\nprint(len([1, 2])\nprint('end')\n```", "2\nend\n"},
	{"quote", "Run this:\n```python\nprint(\"hello)\n```", "hello\n"},
	{"assignment in if", "Run this:\n```python\nx = 1\nif x = 1:\n    print('one')\n```", "one\n"},
	{"else if", "Run this:\n```python\nx = 2\nif x == 1:\n    print(1)\nelse if x == 2:\n    print(2)\n```", "2\n"},
	{"tabs", "Run this:\n```python\nif True:\n    print(1)\n\tprint(2)\n```", "1\n2\n"},
	{"unindented", "Run this:\n```python\ndef f():\nreturn 3\nprint(f())\n```", "3\n"},
	{"concatenation", "Run this:\n```python\nn = 3\nprint('n is ' + n)\n```", "n is 3\n"},
	{"true", "Run this:\n```python\nok = true\nprint(ok)\n```", "True\n"},
	{"global", "Run this:\n```python\ncount = 0\ndef up():\n    count += 1\nup()\nprint(count)\n```", "1\n"},
	{"folder", "Run this:\n```python\nwith open('out/a.txt', 'w') as f:\n    f.write('x')\nprint('ok')\n```", "ok\n"},
	{"numpy", "Run this:\n```python\nimport numpy as np\nprint(np.mean([1, 2, 3]))\n```", "2\n"},
	{"range", "Run this:\n```python\nx = [1, 2]\nfor i in range(len(x) + 1):\n    print(x[i])\n```", "1\n2\n"},
	{"slow", "Run this:\n```python\ndef fib(n):\n    if n < 2:\n        return n\n    return fib(n - 1) + fib(n - 2)\nprint(fib(90))\n```", "2880067194370816120\n"},
	{"divide by zero", "Run this Python: print(1/0)", ""},
	{"input", "Run this Python: print(input('name? '))", ""},
	{"endless", "Run this:\n```python\nwhile True:\n    pass\n```", ""},
	{"no such file", "Run this Python: print(open('nowhere.txt').read())", ""},
	{"key", "Run this Python: print({}['a'])", ""},
	{"js builtin", "Run this JavaScript: console.log(path.basename('/a/b'))", "b\n"},
	{"js fs", "Run this:\n```js\nfs.writeFileSync('x', 'y');\nconsole.log(fs.readFileSync('x', 'utf8'));\n```", "y\n"},
	{"js misspelt", "Run this:\n```js\nconst total = 3;\nconsole.log(totl);\n```", "3\n"},
	{"js console", "Run this:\n```js\nconsole.lgo('x');\n```", "x\n"},
	{"js paren", "Run this:\n```js\nconsole.log('x';\n```", "x\n"},
	{"js brace", "Run this:\n```js\nfunction f() {\n  return 1;\n\nconsole.log(f());\n```", "1\n"},
	{"js import", "Run this:\n```js\nconst os = require('os');\nimport { basename } from 'path';\nconsole.log(basename('/a/b'));\n```", "b\n"},
	{"js require in mjs", "Run this:\n```mjs\nconst path = require('path');\nconsole.log(path.basename('/a/b'));\n```", "b\n"},
	{"js const", "Run this:\n```js\nconst n = 1;\nn = 2;\nconsole.log(n);\n```", "2\n"},
	{"js slow", "Run this:\n```js\nfunction fib(n) {\n  if (n < 2) return n;\n  return fib(n - 1) + fib(n - 2);\n}\nconsole.log(fib(70));\n```", "190392490709135\n"},
	{"js folder", "Run this:\n```js\nrequire('fs').writeFileSync('out/a.txt', 'x');\nconsole.log('ok');\n```", "ok\n"},
	{"js print", "Run this JavaScript: print('x')", "x\n"},
	{"js off by one", "Run this:\n```js\nconst x = [{v: 1}];\nfor (let i = 0; i <= x.length; i++) { console.log(x[i].v); }\n```", "1\n"},
	{"js no module", "Run this:\n```js\nconst x = require('./nowhere');\n```", ""},
}

func TestRepairOfGivenPrograms(t *testing.T) {
	m := newModel(t)
	for _, c := range broken {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			plan, err := m.plan(c.sentence)
			if err != nil {
				t.Fatal(err)
			}
			needInterpreter(t, plan.Language)
			a, err := m.code(*plan)
			if err != nil {
				t.Fatal(err)
			}
			res, diagnoses, question := repairProgram(t, m, *plan, *a, 4*time.Second)
			if c.output == "" {
				if res.OK || question == "" {
					t.Fatalf("ended with %+v, %q; want a question", res, diagnoses)
				}
				return
			}
			if res.Stdout != c.output {
				t.Fatalf("printed %q, want %q; diagnoses %q, question %q, stderr:\n%s", res.Stdout, c.output, diagnoses, question, res.Stderr)
			}
			if len(diagnoses) == 0 {
				t.Error("the program did not fail at first")
			}
		})
	}
}

// The catalogue's honest first versions that fail and are repaired.
func TestRepairOfCataloguePrograms(t *testing.T) {
	t.Parallel()
	m := newModel(t)
	for _, c := range []struct {
		sentence, output string
		fail             api.ExecutionResult // used in place of a real failure where one would need gigabytes
	}{
		{sentence: "compute the 80th Fibonacci number recursively", output: "Fibonacci(80) = 23416728348467685\n"},
		{sentence: "compute the 80th Fibonacci number recursively in JavaScript", output: "Fibonacci(80) = 23416728348467685\n"},
		{sentence: "mean of 1, 2 and 3 using numpy in Python", output: "mean: 2\n"},
		{sentence: "sum of the squares up to 1000 in a list", output: "Sum: 333833500\n", fail: api.ExecutionResult{Category: api.CategoryMemory, Exit: api.Exit{Code: 137, Cause: api.CauseMemory}}},
		{sentence: "sum of the squares up to 1000 in a list in JavaScript", output: "Sum: 333833500\n", fail: api.ExecutionResult{Category: api.CategoryMemory, Exit: api.Exit{Code: 137, Cause: api.CauseMemory}}},
	} {
		t.Run(c.sentence, func(t *testing.T) {
			plan, err := m.plan(c.sentence)
			if err != nil {
				t.Fatal(err)
			}
			needInterpreter(t, plan.Language)
			a, err := m.code(*plan)
			if err != nil {
				t.Fatal(err)
			}
			if c.fail.Category != "" {
				d := m.diagnose(api.DebugRequest{Plan: *plan, Artifact: *a, Result: c.fail})
				if d.Artifact == nil {
					t.Fatalf("no correction: %+v", d)
				}
				a = d.Artifact
			}
			res, diagnoses, _ := repairProgram(t, m, *plan, *a, 5*time.Second)
			if res.Stdout != c.output {
				t.Fatalf("printed %q, want %q; diagnoses %q\n%s", res.Stdout, c.output, diagnoses, res.Stderr)
			}
			if c.fail.Category == "" && len(diagnoses) == 0 {
				t.Error("the first version did not fail")
			}
		})
	}
}

// A module that cannot be installed ends in a question, never in a loop.
func TestUnknownModuleIsInstalledThenAsked(t *testing.T) {
	m := newModel(t)
	plan, err := m.plan("Run this:\n```python\nimport polars as pl\nprint(pl.DataFrame())\n```")
	if err != nil {
		t.Fatal(err)
	}
	a, err := m.code(*plan)
	if err != nil {
		t.Fatal(err)
	}
	fail := api.ExecutionResult{Phase: api.PhaseRun, Exit: api.Exit{Code: 1}, Category: api.CategoryImport,
		Stderr: "Traceback (most recent call last):\n  File \"/workspace/main.py\", line 1, in <module>\n    import polars as pl\nModuleNotFoundError: No module named 'polars'\n"}
	d := m.diagnose(api.DebugRequest{Plan: *plan, Artifact: *a, Result: fail})
	if d.Artifact == nil || !strings.Contains(d.Artifact.Install, "pip install") || !strings.Contains(d.Artifact.Install, "polars") {
		t.Fatalf("no install: %+v", d)
	}
	fail = api.ExecutionResult{Phase: api.PhaseInstall, Exit: api.Exit{Code: 1}, Category: api.CategoryNetwork, Stderr: "ERROR: No matching distribution found for polars\n"}
	d = m.diagnose(api.DebugRequest{Plan: *plan, Artifact: *d.Artifact, Result: fail, Tried: []api.CodeArtifact{*a}})
	if d.Artifact != nil || d.Question == "" {
		t.Fatalf("want a question: %+v", d)
	}
}
