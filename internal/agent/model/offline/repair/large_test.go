package repair

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLargeFile: a file beyond the limit is repaired if the traceback names it, and a report names the files that were
// not read.
func TestLargeFile(t *testing.T) {
	t.Parallel()
	needLanguage(t, "python")
	var large strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&large, "def unused_%d(value):\n    return value * %d\n\n\n", i, i)
	}
	plant := func(body string) string {
		dir := t.TempDir()
		for name, text := range map[string]string{
			"bank.py":  large.String() + body,
			"other.py": large.String(),
			"test_bank.py": "import unittest\n\nimport bank\n\n\nclass BankTest(unittest.TestCase):\n    def test_last(self):\n" +
				"        self.assertEqual(bank.last([1, 2, 3]), 3)\n",
		} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	dir := plant("def last(items):\n    return items[len(items) - 0]\n")
	w, err := drive(t, New(), dir, briefOf("Fix the failing test", "python3 -m unittest -q"))
	if err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "bank.py")); w.blocked != "" || err != nil || !strings.Contains(string(b), "items[len(items) - 1]") {
		t.Errorf("%v, %q, %.300s", err, w.blocked, w.summary)
	}
	if large.Len() < 80<<10 {
		t.Errorf("%d bytes are not large", large.Len())
	}
	// This one cannot be repaired by a small edit.
	m := New()
	m.limit.idle = 3
	w, err = drive(t, m, plant("def last(items):\n    raise KeyError\n"), briefOf("Fix the failing test", "python3 -m unittest -q"))
	if err != nil || !strings.Contains(w.blocked, "Not read: other.py (") || !strings.Contains(w.blocked, "It stopped because") {
		t.Errorf("%v: %q", err, w.blocked)
	}
}
