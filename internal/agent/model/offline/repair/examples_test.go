package repair

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/test/tier"
)

// TestExampleTasks repairs what examples/tasks shows to new users, and only there.
func TestExampleTasks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, gate, changed, line string }{
		{"python", "python3 -m unittest", "grades/statistics.py", "+    return (ordered[middle] + ordered[middle - 1]) / 2"},
		{"javascript", "node --test", "src/parse.js", "+  for (let i = 0; i <= line.length; i++) {"},
		{"go", "go test ./...", "lru/lru.go", "+\t\toldest := c.order.Back()"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if c.name == "go" {
				tier.Soak(t) // a compiler for each try
			}
			needLanguage(t, c.name)
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(filepath.Join("../../../../../examples/tasks", c.name))); err != nil {
				t.Fatal(err)
			}
			repository{}.plant(t, dir, mutant{})
			w, err := drive(t, New(), dir, briefOf("Fix the failing test", c.gate))
			if err != nil {
				t.Fatal(err)
			}
			if w.blocked != "" {
				t.Fatalf("blocked: %s", w.blocked)
			}
			t.Logf("%d steps: %s", w.steps, w.summary)
			if got := shellTool(t, dir, c.gate, map[string]string{"PYTHONDONTWRITEBYTECODE": "1"}, 0); !strings.HasSuffix(got, "[exit code 0]") {
				t.Errorf("the gate fails:\n%s", got)
			}
			if got := changed(t, dir); got != " M "+c.changed+"\n" {
				t.Errorf("it changed\n%s", got)
			}
			cmd := exec.Command("git", "diff", "-U0")
			cmd.Dir = dir
			diff, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(diff), c.line) {
				t.Errorf("the change is not the one that the defect asks for, %q:\n%s\n%s", c.line, diff, w.trials())
			}
		})
	}
}
