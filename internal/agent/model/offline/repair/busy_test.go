package repair

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/test/tier"
)

// TestGateOnABusyHost: a gate that waits much longer than it did before the edit is
// not mistaken for one that hangs, and one that runs in circles is ended.
func TestGateOnABusyHost(t *testing.T) {
	needLanguage(t, "python")
	t.Parallel()
	const test = "import time, unittest\nfrom calc import f\n\nclass T(unittest.TestCase):\n    def test_f(self):\n"
	for _, c := range []struct{ name, source, fixed, test, seen string }{
		{
			"waits", "def f(n):\n    return n - 1\n", "return n + 1",
			test + "        got = f(5)\n        if got == 6:\n            time.sleep(6)\n        self.assertEqual(got, 6)\n",
			": exit 0, failing 0, ran 1",
		}, {
			"circles", "def f(n):\n    done = 0\n    while n > 1:\n        n = n - 1\n        done += 1\n    return done\n", "while n >= 1",
			test + "        self.assertEqual(f(4), 4)\n",
			", failing 0, ran -2", // ended by its processor time or, on a host this busy, by the clock
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if c.name == "circles" {
				tier.Soak(t) // each edit that circles takes its seconds of a processor
			}
			dir := t.TempDir()
			repository{files: map[string]string{"calc.py": c.source, "test_calc.py": c.test}}.plant(t, dir, mutant{})
			w, err := drive(t, New(), dir, briefOf("Fix the failing test", "python3 -m unittest"))
			if err != nil || w.blocked != "" {
				t.Fatalf("%v, %s, %s\n%s", err, w.summary, w.blocked, w.trials())
			}
			if seen := w.trials(); !strings.Contains(seen, c.seen) {
				t.Errorf("no edit ended with %q:\n%s", c.seen, seen)
			}
			got, err := os.ReadFile(filepath.Join(dir, "calc.py"))
			if err != nil || !strings.Contains(string(got), c.fixed) {
				t.Errorf("%v:\n%s", err, got)
			}
		})
	}
}
