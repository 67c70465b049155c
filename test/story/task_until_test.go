package story

import (
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/test/tier"
)

// With --until new agents continue in the same files. The second one knows nothing of the first, reads what the platform wrote, says that it is
// done, and changes nothing: that is no progress and no success.
func TestTaskUntil(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	g := newGarden(t)
	withModels(t, g, scenario(t,
		step{tool: "shell", input: map[string]any{"command": "echo 'echo 4' > sum.sh; echo forged > /tmp/hortus-progress.md"}, want: "This is pass 1 of 5."},
		finishes(),
		step{tool: "shell", input: map[string]any{"command": "grep -q 'modified sum.sh' /tmp/hortus-progress.md && ! grep -q forged /tmp/hortus-progress.md && echo read $((40 + 2))"}, want: "This is pass 2 of 5.", lacks: "echo forged"},
		step{tool: "finish", input: map[string]any{"summary": "All done, the command passes."}, want: "read 42"}))
	withKeys(g, modelKey)
	dir := makeRepo(t, g, map[string]string{
		"sum.sh":  "echo $(($1 - $2))\n",
		"test.sh": "test \"$(sh sum.sh 2 3)\" = 5\n",
	})
	task, r := onRepo(t, g, dir, "--until", "sh test.sh", "--passes", "5", "Fix the sum")
	if r.code != 1 || task.Outcome != api.OutcomeNeedsHuman || task.Repo.Stopped != api.StopUnchanged || len(task.Repo.Rounds) != 2 {
		t.Fatal(r)
	}
	if d := task.Diagnosis; !strings.HasPrefix(d, "No progress: pass 2 changed nothing. Message of the agent: All done") || !strings.Contains(d, "sh test.sh fails: exit code 1") {
		t.Errorf("the diagnosis is %q", d)
	}
	shown := g.must("task", "show", string(task.ID))
	for _, want := range []string{"sh test.sh", "a pass changed nothing", "hortus task reply " + string(task.ID)} {
		if !strings.Contains(shown, want) {
			t.Errorf("%q is not shown: %s", want, shown)
		}
	}
}
