package view

import (
	"slices"
	"strings"
	"testing"
)

func TestFailedTests(t *testing.T) {
	for name, c := range map[string]struct {
		output        string
		names, reason []string
	}{
		"unittest": {"FAIL: test_median (tests.test_grades.Statistics)\n----\nTraceback (most recent call last):\n  File \"t.py\", line 3\nAssertionError: 1 != 2\n\nERROR: test_load (tests.t.T)\nFAIL: test_median (tests.test_grades.Statistics)\nFAILED (failures=1)\n",
			[]string{"test_median (tests.test_grades.Statistics)", "test_load (tests.t.T)"}, []string{"AssertionError: 1 != 2"}},
		"pytest": {"E   assert 1 == 2\nE    +  where 1 = f()\nFAILED tests/test_a.py::test_x[1-2] - assert 1 == 2\nERROR tests/test_b.py::test_y - ImportError\n=== 1 failed in 0.1s ===\n",
			[]string{"tests/test_a.py::test_x[1-2]", "tests/test_b.py::test_y"}, []string{"E   assert 1 == 2", "E    +  where 1 = f()"}},
		"TAP": {"TAP version 13\nok 1 - fine\n    not ok 1 - inner # time=3ms\n      ---\n      error: 'values differ'\n      expected: 3\n      actual: 4\nnot ok 2 outer\nnot ok 3 - later # TODO not yet\n1..3\n",
			[]string{"inner", "outer"}, []string{"error: 'values differ'", "expected: 3", "actual: 4"}},
		"go": {"--- FAIL: TestA (0.00s)\n    --- FAIL: TestA/b (0.00s)\n        a_test.go:7: got 1\npanic: runtime error: index out of range\nFAIL\n",
			[]string{"TestA", "TestA/b"}, []string{"a_test.go:7: got 1", "panic: runtime error: index out of range"}},
		"cargo": {"test tests::adds ... FAILED\ntest tests::ok ... ok\nthread 'tests::adds' panicked at src/lib.rs:9:9:\nassertion `left == right` failed\n  left: 3\n right: 4\n",
			[]string{"tests::adds"}, []string{"thread 'tests::adds' panicked at src/lib.rs:9:9:", "left: 3", "right: 4"}},
		"CRLF":    {"not ok 1 - a\r\n", []string{"a"}, nil},
		"nothing": {"make: *** [test] Error 2\nFAILED\nnot ok\nFAIL: \n", nil, nil},
	} {
		if got := failedTests(c.output); !slices.Equal(got, c.names) {
			t.Errorf("%s: names %q, want %q", name, got, c.names)
		}
		if got := reasons(c.output); !slices.Equal(got, c.reason) {
			t.Errorf("%s: reasons %q, want %q", name, got, c.reason)
		}
	}
}

// FuzzFailedTests: what is found stands in the output, once, and on one line.
func FuzzFailedTests(f *testing.F) {
	f.Add("FAIL: test_x (a.B)\nnot ok 1 - x\n--- FAIL: T\nFAILED a::b - c\ntest a ... FAILED\nE   x\n")
	f.Fuzz(func(t *testing.T, output string) {
		for _, found := range [][]string{failedTests(output), reasons(output)} {
			seen := map[string]bool{}
			for _, name := range found {
				if name == "" || seen[name] || strings.ContainsRune(name, '\n') || !strings.Contains(output, name) {
					t.Errorf("%q of %q", name, output)
				}
				seen[name] = true
			}
		}
	})
}
