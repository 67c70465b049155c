package story

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/test/tier"
)

// taskExamples are what each example of a task on a repository prints: the change,
// and that the tests pass with it.
var taskExamples = map[string]struct{ needs, output string }{
	"python":     {"python3", "-    return (ordered[middle] + ordered[middle + 1]) / 2\n+    return (ordered[middle] + ordered[middle - 1]) / 2\nthe tests pass\n"},
	"javascript": {"node", "-  for (let i = 0; i < line.length; i++) {\n+  for (let i = 0; i <= line.length; i++) {\nthe tests pass\n"},
	"go":         {"go", "-\t\toldest := c.order.Front()\n+\t\toldest := c.order.Back()\nthe tests pass\n"},
}

// TestExampleTasks has the built-in model repair the example's repositories. Each
// is in a sandbox of its own, and without a network.
func TestExampleTasks(t *testing.T) {
	tier.Soak(t) // minutes, for compilers without a cache; TestDocuments/docs/tasks.md has the one in Python
	tier.AnyUser(t)
	t.Parallel()
	script, err := filepath.Abs("../../examples/tasks/run.sh")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range taskExamples {
		t.Run(name, func(t *testing.T) {
			g := newGarden(t)
			g.light()
			if _, err := exec.LookPath(want.needs); err != nil {
				t.Skipf("there is no %s on this machine", want.needs)
			}
			if want.needs == "go" {
				g.shareKernel() // a compiler's files take a kernel of their own several times as long
				if cache, err := exec.Command("go", "env", "GOCACHE").Output(); err == nil {
					// For the runs outside of sandboxes: those inside have nothing of it.
					g.env = append(g.env, "GOCACHE="+strings.TrimSpace(string(cache)))
				}
			}
			r := g.outsideFor(5*patience, "sh", script, name) // many runs of its tests
			if r.code == 3 && strings.Contains(r.stderr, "[planner]") {
				// Only the pipeline for sentences has a planner.
				t.Skip("this build has no engine for tasks on repositories: the request went to the planner")
			}
			if r.code != 0 || r.stdout != want.output {
				t.Errorf("want\n%s\ngot %s", want.output, r)
			}
		})
	}
}
