package edit

import (
	"slices"
	"strings"
	"testing"
)

// Each program has one mistake; the edit that takes it back has to be among the
// first so many.
var mistakes = []struct {
	name, path, source, test, output, line, want string
	within                                       int
}{
	{"boundary", "ages.py", "def adult(age):\n    return age > 18\n", "test_ages.py|from ages import adult\n\ndef test_adult():\n    assert adult(18)\n", "FAILED test_ages.py::test_adult - assert False\n", "", "    return age >= 18", 3},
	{"wrong argument order", "power.py", "def power(a, n):\n    return pow(n, a)\n", "test_power.py|from power import power\n\ndef test_power():\n    assert power(2, 3) == 8\n", "FAILED test_power.py::test_power - assert 9 == 8\n", "", "    return pow(a, n)", 12},
	{"default", "greet.py", "def greet(name, mark='?'):\n    return name + mark\n", "test_greet.py|from greet import greet\n\ndef test_greet():\n    assert greet('a') == 'a!'\n", "E       AssertionError: 'a?' != 'a!'\nFAILED test_greet.py::test_greet\n", "", "def greet(name, mark='!'):", 12},
	{"mutable default", "bag.py", "def put(x, bag=[]):\n    bag.append(x)\n    return bag\n", "test_bag.py|from bag import put\n\ndef test_put():\n    assert put(1) == [1]\n    assert put(2) == [2]\n", "FAILED test_bag.py::test_put\n", "", "def put(x, bag=None):", 12},
	{"missing self", "box.py", "class Box:\n    def __init__(self):\n        self.n = 0\n\n    def size(self):\n        return n\n", "test_box.py|from box import Box\n\ndef test_size():\n    assert Box().size() == 0\n", "  File \"/r/box.py\", line 6, in size\n    return n\nNameError: name 'n' is not defined\nFAILED test_box.py::test_size\n", "", "        return self.n", 6},
	{"missing export", "src/a.js", "function one() {\n  return 1;\n}\nfunction two() {\n  return 2;\n}\nmodule.exports = { one };\n", "test/a.test.js|const { one, two } = require('../src/a');\ntest('two', () => { two(); });\n", "TypeError: two is not a function\n    at TestContext.<anonymous> (/r/test/a.test.js:2:22)\nnot ok 1 - two\n", "", "module.exports = { two, one };", 6},
	{"missing await", "src/a.js", "async function load(get) {\n  const page = get();\n  return page.title;\n}\nmodule.exports = { load };\n", "test/a.test.js|const { load } = require('../src/a');\ntest('load', async () => { await load(async () => ({ title: 'x' })); });\n", "not ok 1 - load\n", "", "  const page = await get();", 6},
	{"off by one", "count.py", "def count(n):\n    return list(range(1, n))\n", "test_count.py|from count import count\n\ndef test_count():\n    assert count(2) == [1, 2]\n", "FAILED test_count.py::test_count - assert [1] == [1, 2]\n", "", "    return list(range(1, n + 1))", 20},
	{"negation", "open.py", "def may(closed):\n    if closed:\n        return True\n    return False\n", "test_open.py|from open import may\n\ndef test_may():\n    assert may(False)\n", "FAILED test_open.py::test_may - assert False\n", "", "    if not closed:", 20},
	{"numeric sort", "src/a.js", "function order(list) {\n  return list.sort();\n}\nmodule.exports = { order };\n", "test/a.test.js|test('order', () => { order([10, 9]); });\n", "not ok 1 - order\n", "", "  return list.sort((a, b) => a - b);", 4},
	{"unused import", "a/a.go", "package a\n\nimport (\n\t\"fmt\"\n\t\"strings\"\n)\n\nfunc Up(s string) string { return strings.ToUpper(s) }\n", "a/a_test.go|package a\n", "# x/a\na/a.go:4:2: \"fmt\" imported and not used\n", "\t\"fmt\"\n", "", 1},
	{"missing import", "a/a.go", "package a\n\nfunc Up(s string) string { return strings.ToUpper(s) }\n", "a/a_test.go|package a\n", "# x/a\na/a.go:3:35: undefined: strings\n", "", "import \"strings\"", 2},
	{"mismatched types", "a/a.go", "package a\n\nfunc Mean(sum float64, n int) float64 {\n\treturn sum / n\n}\n", "a/a_test.go|package a\n", "# x/a\na/a.go:4:9: invalid operation: sum / n (mismatched types float64 and int)\n", "", "\treturn sum / float64(n)", 2},
	{"opposite", "a/a.go", "package a\n\nimport \"container/list\"\n\nfunc Last(l *list.List) any {\n\treturn l.Front().Value\n}\n", "a/a_test.go|package a\n\nimport \"testing\"\n\nfunc TestLast(t *testing.T) {\n\tLast(nil)\n}\n", "--- FAIL: TestLast (0.00s)\n    a_test.go:6: no\n", "", "\treturn l.Back().Value", 6},
}

func TestMistakes(t *testing.T) {
	for _, c := range mistakes {
		t.Run(c.name, func(t *testing.T) {
			testPath, testText, _ := strings.Cut(c.test, "|")
			files := []File{{c.path, c.source}, {testPath, testText}}
			edits := List(files, Failure{Output: c.output, Root: "/r"}, nil)
			at := slices.IndexFunc(edits, func(e Edit) bool {
				after, ok := e.Apply(c.source)
				if c.want == "" {
					return ok && after == strings.Replace(c.source, c.line, "", 1)
				}
				return ok && slices.Contains(strings.Split(after, "\n"), c.want)
			})
			if at < 0 || at >= c.within {
				t.Errorf("the right edit is number %d of %d, want it within the first %d", at+1, len(edits), c.within)
			}
			for _, e := range edits {
				if e.Path != c.path {
					t.Fatalf("it would edit %s", e.Path)
				}
			}
		})
	}
}

func TestEditsAreTheSameEveryTime(t *testing.T) {
	c := mistakes[0]
	list := func() []Edit { return List([]File{{c.path, c.source}}, Failure{Output: c.output}, nil) }
	a, b := list(), list()
	if !slices.EqualFunc(a, b, func(x, y Edit) bool { return x.From == y.From && slices.Equal(x.Lines, y.Lines) }) {
		t.Error("two lists of the same input differ")
	}
}

func TestApplyOutside(t *testing.T) {
	for _, e := range []Edit{{From: 0, To: 1}, {From: 3, To: 1}, {From: 1, To: 9}, {From: -1, To: -1}} {
		if s, ok := e.Apply("a\nb"); ok {
			t.Errorf("%+v gives %q", e, s)
		}
	}
	if s, ok := (Edit{From: 2, To: 1, Lines: []string{"x"}}).Apply("a\nb"); !ok || s != "a\nx\nb" {
		t.Errorf("an insertion gives %q, %v", s, ok)
	}
}

func TestTestsAreRecognized(t *testing.T) {
	for p, want := range map[string]bool{
		"test_a.py": true, "a/tests/b.py": true, "a_test.go": true, "src/a.test.js": true, "test/a.js": true, "conftest.py": true,
		"a.py": false, "latest.py": false, "contest.go": false, "src/attest.js": false, "testing.py": false,
	} {
		if IsTest(p) != want {
			t.Errorf("IsTest(%q) is %v", p, !want)
		}
	}
}

// FuzzEdits feeds sources and outputs of any kind: the list stays within its
// bound, every edit can be applied, and none is of a test.
func FuzzEdits(f *testing.F) {
	for _, c := range mistakes {
		f.Add(c.path, c.source, c.output)
	}
	f.Add("a.py", "x = f\"{a['b']!r:>{w}}\" '''\n", "Traceback")
	f.Add("a.js", "`${`${a}`}` /[/]/ /* \n", "")
	f.Add("a.go", "func (", "a.go:1:1: missing return")
	f.Fuzz(func(t *testing.T, path, source, output string) {
		if len(source) > 4<<10 || len(output) > 4<<10 {
			return
		}
		edits := List([]File{{path, source}, {"b_test.py", source}}, Failure{Output: output, Root: "/"}, nil)
		if len(edits) > MaxEdits {
			t.Errorf("%d edits", len(edits))
		}
		for _, e := range edits {
			if e.Path != path || IsTest(e.Path) {
				t.Errorf("edits %q", e.Path)
			}
			if _, ok := e.Apply(source); !ok {
				t.Errorf("%+v cannot be applied", e)
			}
		}
	})
}
