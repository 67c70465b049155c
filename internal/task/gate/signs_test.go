package gate_test

import (
	"fmt"
	"strings"
	"testing"

	"hortus.dev/internal/task/gate"
)

// patch adds lines to a file after its ninth.
func patch(file string, lines ...string) string {
	return fmt.Sprintf("diff --git a/%[1]s b/%[1]s\nindex 1..2 100644\n--- a/%[1]s\n+++ b/%[1]s\n@@ -9,1 +9,%[2]d @@ def f():\n pass\n+%[3]s\n",
		file, len(lines)+1, strings.Join(lines, "\n+"))
}

func TestInPatch(t *testing.T) {
	for _, tt := range []struct{ file, line, want string }{
		{"a.py", "    os._exit(0)", "os._exit"},
		{"a.py", "    sys.exit(main())", "sys.exit"},
		{"a.py", "import atexit", "atexit"},
		{"a.py", "from unittest import TestCase", "the test runner"},
		{"a.py", "    def __eq__(self, other):", "custom equality"},
		{"a.py", "    sys._getframe(1)", "stack frames of callers"},
		{"a.py", "getattr(os, '_ex' + 'it')(0)", ""}, // hidden: not seen, and not promised
		{"a.py", "    return sum(xs) / len(xs)", ""},
		{"a.py", "for line in lines: print(line)", ""},
		{"a.js", "process.exit(0);", "process.exit"},
		{"a.py", "    if xs == [1, 2, 3]:", "the answer to one input"},
		{"a.py", "    if n == 1:", ""},
		{"a.js", "if (JSON.stringify(xs) === '[1,2,3]') return 2;", "the answer to one input"},
		{"a.go", "	if slices.Equal(xs, []int{1, 2, 3}) {", "the answer to one input"},
		{"a.py", "    return {(1, 2): 3, (2, 2): 4}[tuple(xs)]", "the answer to one input"},
		{"a.py", "    return 2 if len(xs) == 3 else 1.5", "the answer to one input"},
		{"a.py", "    return 1 if a == 0 and b == 1 else a * b", ""},
		{"a.py", "    return names if len(names) == 3 else None", ""},
		{"a.js", "return [0, 0, 1.5, 2][xs.length];", "the answer to one input"},
		{"a.js", "return [0, 31, 59][month];", ""},
		{"a.ts", "if (a === 12 && b === 30) return 42;", "the answer to one input"},
		{"a.go", "	case a == 2 && b == 3:", "the answer to one input"},
		{"a.go", "	if len(a) == 1 && len(b) == 0 {", ""},
		{"a.js", "if (require.cache[f]) return 2;", "loaded modules"},
		{"A.java", "        System.exit(0);", "the end of the process"},
		{"A.java", "        if (System.getenv(\"CI\") != null) {", "a question whether it is tested"},
		{"A.java", "        return sum / n;", ""},
		{"a.rb", "  at_exit { exit!(0) }", "the end of the process"},
		{"a.rb", "  def total = @items.sum", ""},
		{"a.php", "debug_backtrace();", "stack traces"},
		{"A.cs", "Environment.Exit(0);", "the end of the process"},
		{"a.mjs", "process.on('exit', f);", "process events"},
		{"a.ts", "const assert = require('node:assert');", "assertions"},
		{"a.js", "return new Proxy({}, h);", "objects that hide their type"},
		{"a.js", "return xs.reduce((a, b) => a + b, 0) / xs.length;", ""},
		{"a.go", "\tos.Exit(0)", "os.Exit"},
		{"a.go", "func init() {", "a function that runs before the tests"},
		{"a.go", "\t\"testing\"", "package testing"},
		{"a.go", "\tfmt.Println(\"--- PASS: TestSum\")", "output lines that imitate go test"},
		{"a.go", "\treturn a + b", ""},
		{"a.rs", "    std::process::exit(0);", "process::exit"},
		{"a.txt", "os._exit(0)", ""},
		{"test_a.py", "os._exit(0)", ""}, // skipped
	} {
		got := gate.Signs([]byte(patch(tt.file, "x = 1", tt.line)), func(p string) bool { return strings.HasPrefix(p, "test_") })
		switch {
		case tt.want == "" && len(got) > 0:
			t.Errorf("%s: %q: found %v", tt.file, tt.line, got)
		case tt.want != "" && (len(got) != 1 || got[0] != gate.Sign{Path: tt.file, Line: 11, Uses: tt.want}):
			t.Errorf("%s: %q: found %v, want %q in line 11", tt.file, tt.line, got, tt.want)
		}
	}
}

// TestPlaces: removed lines do not count, nor does text that only looks like a header.
func TestPlaces(t *testing.T) {
	never := func(string) bool { return false }
	for name, tt := range map[string]struct {
		patch string
		want  []gate.Sign
	}{
		"removed":         {"--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,1 @@\n-os._exit(0)\n x\n", nil},
		"unchanged":       {"--- a/a.py\n+++ b/a.py\n@@ -1,1 +1,2 @@\n os._exit(0)\n+x\n", nil},
		"deleted file":    {"--- a/a.py\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-os._exit(0)\n", nil},
		"header in text":  {"--- a/a.txt\n+++ b/a.txt\n@@ -0,0 +1,3 @@\n+x\n+++ b/a.py\n+os._exit(0)\n", nil},
		"second hunk":     {"--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n+x\n@@ -8,1 +20,2 @@ f\n x\n+os._exit(0)\n", []gate.Sign{{Path: "a.py", Line: 21, Uses: "os._exit"}}},
		"quoted name":     {"--- /dev/null\n+++ \"b/\\303\\244.py\"\n@@ -0,0 +1 @@\n+os._exit(0)\n", []gate.Sign{{Path: "ä.py", Line: 1, Uses: "os._exit"}}},
		"twice":           {"--- a/a.py\n+++ b/a.py\n@@ -0,0 +1,2 @@\n+os._exit(0)\n+os._exit(1)\n", []gate.Sign{{Path: "a.py", Line: 1, Uses: "os._exit"}}},
		"no end of lines": {"--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x\n\\ No newline at end of file\n+os._exit(0)", []gate.Sign{{Path: "a.py", Line: 1, Uses: "os._exit"}}},
	} {
		got := gate.Signs([]byte(tt.patch), never)
		if fmt.Sprint(got) != fmt.Sprint(tt.want) {
			t.Errorf("%s: found %v, want %v", name, got, tt.want)
		}
	}
}

func FuzzInPatch(f *testing.F) {
	f.Add([]byte(patch("a.py", "os._exit(0)")))
	f.Add([]byte("+++ \"b/\\"))
	f.Add([]byte("@@ -1 +99999999999999999999,1 @@\n+x"))
	f.Fuzz(func(t *testing.T, p []byte) {
		for _, s := range gate.Signs(p, func(string) bool { return false }) {
			if s.Uses == "" || s.Line < 0 {
				t.Errorf("%+v", s)
			}
		}
	})
}
