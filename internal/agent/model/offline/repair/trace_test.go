package repair

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/agent/model/offline/repair/edit"
)

// traced are small repositories with one failing test, which executes the lines from
// 3 to 5 and not line 2.
var traced = []struct {
	language, gate, source, test string
	files                        map[string]string
}{
	{"python", "python3 -m unittest", "shop.py", "test_shop.py", map[string]string{
		"shop.py": "def name(x):\n    return x.upper()\ndef price(n):\n    total = n * 3\n    return total + 1\ndef unused(n):\n    return n - 1\n",
		"test_shop.py": "import unittest, shop\nclass T(unittest.TestCase):\n    def test_name(self):\n        self.assertEqual(shop.name('a'), 'A')\n" +
			"    def test_price(self):\n        self.assertEqual(shop.price(2), 6)\n",
	}},
	{"javascript", "node --test", "shop.js", "shop.test.js", map[string]string{
		"shop.js": "function name(x) {\n  return x.toUpperCase(); }\nfunction price(n) {\n  const total = n * 3;\n  return total + 1; }\nfunction unused(n) {\n  return n - 1; }\nmodule.exports = { name, price, unused };\n",
		"shop.test.js": "const test = require('node:test');\nconst assert = require('node:assert');\nconst shop = require('./shop');\n" +
			"test('name', () => assert.equal(shop.name('a'), 'A'));\ntest('price', () => assert.equal(shop.price(2), 6));\n",
	}},
}

// TestTrace runs real test suites: the trace holds the lines that the failing test
// executes, with how many passing tests execute them too, and the edits of those lines
// come first. Without the trace, edits of the unused function are among them.
func TestTrace(t *testing.T) {
	t.Parallel()
	for _, c := range traced {
		t.Run(c.language, func(t *testing.T) {
			t.Parallel()
			needLanguage(t, c.language)
			dir := t.TempDir()
			var files []edit.File
			for p, s := range c.files {
				if err := os.WriteFile(filepath.Join(dir, p), []byte(s), 0o644); err != nil {
					t.Fatal(err)
				}
				files = append(files, edit.File{Path: p, Text: s})
			}
			gate := readRun(shellTool(t, dir, c.gate, map[string]string{"PYTHONDONTWRITEBYTECODE": "1"}, 0))
			out := shellTool(t, dir, inputOf(t, trace(c.gate, edit.FailedTests(gate.output))), nil, 0)
			tr := readTrace(out, func(p string) bool { return p == c.source })
			if tr == nil || tr.Failing != 1 || tr.Passing != 1 {
				t.Fatalf("trace %+v of\n%s", tr, out)
			}
			executed := func(line int) bool {
				return slices.ContainsFunc(tr.Ranges[c.source], func(r edit.Range) bool {
					return r.From <= line && line <= r.To && r.Passing == 0 && r.Failing == 1
				})
			}
			if executed(2) || !executed(4) || !executed(5) || executed(7) {
				t.Errorf("the failing test executes %+v", tr.Ranges)
			}
			entries, err := os.ReadDir(dir)
			if err != nil || len(entries) != len(files) {
				t.Errorf("the trace leaves files in the tree: %v, %v", entries, err)
			}
			f := edit.Failure{Output: gate.output, Root: dir, Trace: tr}
			unused := func(e edit.Edit) bool { return e.From == 7 && e.To == 7 }
			edits := edit.List(files, f, nil)
			reached := edits[:edit.Reached(edits)]
			if len(reached) == 0 || reached[0].From < 3 || reached[0].From > 5 || slices.ContainsFunc(reached, unused) || !slices.ContainsFunc(edits, unused) {
				t.Errorf("%d of %d edits are reached: %+v", len(reached), len(edits), reached)
			}
			f.Trace = nil
			if edits = edit.List(files, f, nil); edit.Reached(edits) != len(edits) || !slices.ContainsFunc(edits, unused) {
				t.Error("without a trace, an edit of the unused function is not listed")
			}
		})
	}
}

// Lines that no failing test executes are left out, unless the program starts processes,
// which may execute them.
func TestCandidatesOfProcesses(t *testing.T) {
	for text, want := range map[string]bool{"": false, "import subprocess\n": true} {
		r := &repairer{session: &session{agent: New()}, files: []edit.File{{Path: "a.py", Text: "def f(n):\n    return n + 1\ndef g(n):\n    return n - 1\n" + text}},
			trace:   &edit.Trace{Failing: 1, Ranges: map[string][]edit.Range{"a.py": {{From: 1, To: 3, Failing: 1}}}},
			gateRun: run{output: "FAIL: test_f\n", exit: 1}}
		edits := r.candidates()
		if got := slices.ContainsFunc(edits, func(e edit.Edit) bool { return e.From == 4 && e.To == 4 }); got != want || len(edits) == 0 {
			t.Errorf("%q: an edit of a line that is not in the trace is among the %d candidates: %v", text, len(edits), got)
		}
	}
}

// The trace's text comes from a sandbox: what is cut, forged or too long is no trace.
func TestReadTrace(t *testing.T) {
	all := func(string) bool { return true }
	good := "tests 1 2\nlines a.py 1 3 1 0\nlines a.py 5 5 1 2\ntraced 2\n"
	if tr := readTrace(good, all); tr == nil || tr.Failing != 1 || tr.Passing != 2 || len(tr.Ranges["a.py"]) != 2 {
		t.Errorf("%+v", tr)
	}
	for _, text := range []string{
		"", "tests 1 2\n", strings.Replace(good, "traced 2", "", 1), strings.Replace(good, "lines a.py 1 3 1 0", "[... cut ...]", 1),
		strings.Replace(good, "tests 1", "tests 0", 1), "tests 1 1\n" + strings.Repeat("lines a.py 1 1 1 1\n", 5000) + "traced 5000\n",
	} {
		if tr := readTrace(text, all); tr != nil {
			t.Errorf("%.60q: %+v", text, tr)
		}
	}
	if tr := readTrace(good, func(string) bool { return false }); tr != nil {
		t.Errorf("of no source: %+v", tr)
	}
	huge := readTrace("tests 99999999999999999999 1\nlines a.py 1 99999999999999999999 1 99999999999999999999\ntraced 1\n", all)
	edit.List([]edit.File{{Path: "a.py", Text: "x = 1\n"}}, edit.Failure{Trace: huge}, nil)
}

// hopelessRepair answers every call of a repair as a sandbox does in which no edit helps,
// each call that tries edits after the given seconds.
func hopelessRepair(t *testing.T, m *Agent, seconds int) (says []string, blocked string) {
	t.Helper()
	source := strings.Repeat("    total = total + price * 2 - 1\n", 60)
	text := "def f(total, price):\n" + source + "    return total\n"
	messages := []model.Message{{Role: model.RoleUser, Text: briefOf("Fix the failing test", "make test")}}
	for range 40 {
		res, err := m.Generate(t.Context(), model.Request{Messages: messages, Tools: agentTools}, nil)
		if err != nil {
			t.Fatal(err)
		}
		messages = append(messages, res.Message)
		says = append(says, res.Message.Text)
		for _, c := range res.Message.Calls {
			in, answer := string(c.Input), "[exit code 0]"
			switch {
			case c.Name == "finish":
				return says, in
			case c.Name == "view":
				answer = ""
				for i, l := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
					answer += fmt.Sprintf("%6d\t%s\n", i+1, l)
				}
			case strings.Contains(in, "[sources]"):
				answer = fmt.Sprintf("/w\n[recent]\n[sources]\n%d %d a.py\n[exit code 0]", strings.Count(text, "\n"), len(text))
			case strings.Contains(in, "record which lines"):
				answer = "tests 1 0\nlines a.py 1 62 1 0\ntraced 1\n[exit code 0]"
			case strings.Contains(in, "tries edits in copies"):
				n := strings.Count(in, `\ttry `)
				answer = fmt.Sprintf("baseline: exit 1, failing 1, ran 1\ntried %d, next 0, seconds %d\n[exit code 0]", n, seconds)
			case strings.Contains(in, "make test"):
				answer = "FAIL: test_f\nFile \"a.py\", line 5\n[exit code 1]"
			}
			messages = append(messages, model.Message{Role: model.RoleTool, CallID: c.ID, Text: answer})
		}
	}
	t.Fatal("it does not give up")
	return nil, ""
}

// TestGivesUp: a repair in which no edit helps ends after a bounded number of candidates
// and of seconds, and says what was tried, why it stopped, and what would help. Without
// the bounds it continues for all of its calls.
func TestGivesUp(t *testing.T) {
	trials := func(says []string) (n int) {
		for _, s := range says {
			if strings.Contains(s, "trial call") {
				n++
			}
		}
		return n
	}
	for _, c := range []struct {
		name           string
		seconds, calls int
		idle           int
		limit          int
		says           []string
	}{
		{"no edit helps", 9, 2, 320, 120, []string{"none of the 320 small edits that were tried in 18 s", "lines of a.py", "320 candidates in a row let no more tests pass", "The failure names a.py:5", "--model anthropic"}},
		{"a slow gate", 60, 2, 1 << 20, 120, []string{"the time for trying edits (120 s) is used up"}},
		{"without the bounds", 60, 7, 1 << 20, 7 * 170, []string{"7 calls tried edits, which is the maximum"}},
	} {
		m := New()
		m.limit = effort{calls: 7, seconds: c.limit, idle: c.idle}
		says, blocked := hopelessRepair(t, m, c.seconds)
		if got := trials(says); got != c.calls {
			t.Errorf("%s: %d calls tried edits, want %d", c.name, got, c.calls)
		}
		for _, want := range c.says {
			if !strings.Contains(blocked, want) {
				t.Errorf("%s: no %q in %s", c.name, want, blocked)
			}
		}
	}
	if m := New(); m.limit != maxEffort || m.untraced {
		t.Errorf("a new model has the bounds %+v", m.limit)
	}
	says, _ := hopelessRepair(t, New(), 1)
	if s := strings.Join(says, "\n"); !strings.Contains(s, "trying 1 to 160 in copies of the tree") || !strings.Contains(s, "trying 161 to 320") || !strings.Contains(s, "It stops after 320 in a row") {
		t.Errorf("it says\n%s", s)
	}
}
