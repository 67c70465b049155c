package offline

import (
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/agent/model/offline/repair/diagnosis"
)

// FuzzPlan: whatever a sentence is, the answer is a plan whose program renders,
// or a decline.
func FuzzPlan(f *testing.F) {
	for _, c := range matching {
		f.Add(c.sentence)
	}
	for _, s := range beyond {
		f.Add(s)
	}
	for _, c := range broken {
		f.Add(c.sentence)
	}
	m := newModel(f)
	f.Fuzz(func(t *testing.T, s string) {
		p, err := m.plan(s)
		if err != nil {
			if api.KindOf(err) != api.KindDeclined {
				t.Fatalf("%v", err)
			}
			return
		}
		for _, lang := range []api.Language{api.Python, api.JavaScript} {
			q := *p
			q.Language = lang
			a, err := m.code(q)
			if err != nil && api.KindOf(err) != api.KindDeclined || err == nil && (len(a.Files) != 1 || a.Run == "") {
				t.Fatalf("%+v: %+v, %v", q, a, err)
			}
		}
	})
}

// FuzzDiagnose: hostile errors and programs give a correction that differs, or a
// question; never a panic and never what was tried.
func FuzzDiagnose(f *testing.F) {
	for _, c := range broken {
		f.Add(c.sentence, "  File \"main.py\", line 1\n    x\nSyntaxError: '(' was never closed\n", 1, false)
	}
	for _, e := range []string{"SyntaxError: invalid syntax", "IndentationError: unexpected indent", "IndentationError: expected an indented block after 'if' statement on line 1",
		"NameError: name 'x' is not defined. Did you mean: 'y'?", "ModuleNotFoundError: No module named 'numpy'", "AttributeError: module 'math' has no attribute 'sqr'",
		"FileNotFoundError: [Errno 2] No such file or directory: 'a/b'", "TypeError: can only concatenate str (not \"int\") to str"} {
		f.Add("x = 1\nif x = (1:\n  print 'a'\n\n", "  File \"/workspace/main.py\", line 2\n"+e+"\n", 1, false)
		f.Add("f(", "/workspace/main.js:1\n"+e+"\n", 1, true)
	}
	f.Add("function f() {\n  return [1;\n", "/workspace/main.js:2\nSyntaxError: Unexpected token ';'\n", 1, true)
	f.Add("", "bash: line 1: python: command not found\n", 127, false)
	m := newModel(f)
	f.Fuzz(func(t *testing.T, src, stderr string, code int, js bool) {
		plan := api.ExecutionPlan{Language: api.Python, Shell: "bash", Output: api.OutputNone}
		if js {
			plan.Language = api.JavaScript
		}
		a := artifactOf(plan, src, false, "")
		for _, cat := range []api.Category{"", api.CategoryTimeout, api.CategoryMemory} {
			d := m.diagnose(api.DebugRequest{Plan: plan, Artifact: *a, Result: api.ExecutionResult{Stderr: stderr, Exit: api.Exit{Code: code}, Category: cat}})
			if d.Artifact != nil && diagnosis.Same(*d.Artifact, *a) || d.Artifact == nil && d.Question == "" || d.Cause == "" {
				t.Fatalf("%+v", d)
			}
		}
	})
}

// Long and repetitive input must not stall the daemon. The deadline of the test
// run is the bound; what is quadratic here takes minutes.
func TestLongInputs(t *testing.T) {
	m := newModel(t)
	for _, piece := range []string{"1, ", "a ", "'", "\"x\" ", "`", "(", "sum([", "first ", "print(", "\n", "    x\n", "if x\n", "1 and 2 to ", "```", ": ", "é", "-"} {
		s := strings.Repeat(piece, 16<<10/len(piece))
		if _, err := m.plan(s); err != nil && api.KindOf(err) != api.KindDeclined {
			t.Errorf("%q: %v", piece, err)
		}
		long := strings.Repeat(piece, diagnosis.MaxSource/len(piece))
		for _, lang := range []api.Language{api.Python, api.JavaScript} {
			plan := api.ExecutionPlan{Language: lang}
			for _, e := range []string{"SyntaxError: '(' was never closed", "NameError: name 'x' is not defined", "ReferenceError: x is not defined", ""} {
				m.diagnose(api.DebugRequest{Plan: plan, Artifact: *artifactOf(plan, long, false, ""), Result: api.ExecutionResult{
					Category: api.CategoryMemory, Stderr: "  File \"main.py\", line 2\n/w/main.js:2\n" + e + "\n"}})
			}
		}
	}
}
