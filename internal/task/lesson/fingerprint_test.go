package lesson

import (
	"strings"
	"testing"

	"hortus.dev/api"
)

func TestFingerprint(t *testing.T) {
	for _, c := range []struct {
		name, a, b string
		same       bool
	}{
		{"python, other lines, paths and addresses",
			"Traceback (most recent call last):\n  File \"/workspace/a/main.py\", line 12, in <module>\n    run()\nTypeError: <Point object at 0x7f12ab> has 3 values\n",
			"Traceback (most recent call last):\n  File \"/tmp/x/main.py\", line 40, in <module>\n    run()\nTypeError: <Point object at 0x55aa00> has 12 values\n", true},
		{"python, another attribute", "AttributeError: 'Point' object has no attribute 'norm'", "AttributeError: 'Point' object has no attribute 'length'", false},
		{"go, other times", "--- FAIL: TestSum (0.02s)\n    sum_test.go:9: got 3, want 4\nFAIL\nFAIL\texample.org/sum\t0.031s\n",
			"--- FAIL: TestSum (1.20s)\n    sum_test.go:17: got 8, want 9\nFAIL\nFAIL\texample.org/sum\t1.300s\n", true},
		{"go, another test", "--- FAIL: TestSum (0.02s)", "--- FAIL: TestMean (0.02s)", false},
		{"go compiler", "# example.org/sum\n./sum.go:3:5: undefined: total\n", "# example.org/sum\n./sum.go:9:1: undefined: total\n", true},
		{"node", "/workspace/app.js:4\nTypeError: Cannot read properties of undefined (reading 'id')\n    at main (/workspace/app.js:4:11)\n",
			"/srv/w1/app.js:9\nTypeError: Cannot read properties of undefined (reading 'id')\n    at main (/srv/w1/app.js:9:2)\n", true},
		{"rust, codes count", "error[E0382]: borrow of moved value: `v`", "error[E0499]: borrow of moved value: `v`", false},
		{"colours", "\x1b[31mTypeError: x is not a function\x1b[0m", "TypeError: x is not a function", true},
		{"sums of a runner", "E   KeyError: 'a'\n3 failed, 4 passed in 0.2s\n", "E   KeyError: 'a'\n1 failed, 9 passed in 1.9s\n", true},
		{"unittest, other values and counts", "FAIL: test_add (test_calc.T.test_add)\nAssertionError: -1 != 5\n\nRan 1 test in 0.000s\n\nFAILED (failures=1)\n",
			"FAIL: test_add (test_calc.T.test_add)\nAssertionError: 7 != 8\n\nRan 9 tests in 0.010s\n\nFAILED (failures=1, errors=2)\n", true},
		{"unittest, another test", "FAIL: test_add (test_calc.T.test_add)\n", "FAIL: test_sub (test_calc.T.test_sub)\n", false},
		{"order of what is repeated", "TypeError: a\nTypeError: b\nTypeError: a\n", "TypeError: b\nTypeError: a\n", true},
		{"dates and ids", "ValueError: 2026-01-02T03:04:05Z 123e4567-e89b-12d3-a456-426614174000", "ValueError: 2025-11-12T13:14:15.123Z 00000000-e89b-12d3-a456-426614174000", true},
	} {
		a, b := Of(c.a), Of(c.b)
		if a.Text == "" || b.Text == "" || (a.Fingerprint == b.Fingerprint) != c.same {
			t.Errorf("%s: same is %v\n%s\n-----\n%s", c.name, !c.same, a.Text, b.Text)
		}
	}
	for _, quiet := range []string{"", "\n\n", "42\n", "all good\nok\n", "3 failed, 4 passed\n", "FAILED (failures=1)\n"} {
		if f := Of(quiet); f != (Failure{}) {
			t.Errorf("%q is the failure %q", quiet, f.Text)
		}
	}
}

func TestAlike(t *testing.T) {
	key := Of("invoice/total.py:12: KeyError: 'customer_id'").Text
	for _, c := range []struct {
		other string
		want  bool
	}{
		{"invoice/sum.py:3: KeyError: 'customer_id'", true},
		{"KeyError: 'customer_id'", true},
		{"invoice/total.py: PermissionError: socket of the printer is denied", false},
		{"error error error failed", false},
	} {
		if got := alike(key, Of(c.other).Text); got != c.want {
			t.Errorf("%q and %q alike: %v", key, c.other, got)
		}
	}
	if alike("", "") {
		t.Error("nothing is like nothing")
	}
}

func FuzzOf(f *testing.F) {
	f.Add("TypeError: x")
	f.Add("\x1b[31mFAILED a::b\x00\xff")
	f.Add(strings.Repeat("error E0382 /a/b/c:1:2 ", 500))
	f.Fuzz(func(t *testing.T, output string) {
		a := Of(output)
		if len(a.Text) > api.MaxLessonFailure || a != Of(output) || (a.Text == "") != (a.Fingerprint == "") {
			t.Errorf("%+v", a)
		}
		if w := words(a.Text); len(w) > maxWords {
			t.Errorf("%d words", len(w))
		}
	})
}
