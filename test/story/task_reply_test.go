package story

import (
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/test/tier"
)

// A question is answered by the command that the verdict names, and the work continues
// with the files and the history of the task that asked.
func TestTaskReply(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	g := newGarden(t)
	withModels(t, g, scenario(t,
		shell("echo notes > notes.txt"),
		step{tool: "finish", input: map[string]any{"summary": "half done", "blocked": "Plus or minus?"}},
		step{tool: "shell", input: map[string]any{"command": `test -f notes.txt && printf 'echo $(($1 + $2))\n' > sum.sh`}, want: "Plus, of course."},
		finishes()))
	withKeys(g, modelKey)
	dir := makeRepo(t, g, map[string]string{
		"sum.sh":  "echo $(($1 - $2))\n",
		"test.sh": "test \"$(sh sum.sh 2 3)\" = 5\n",
	})
	first, r := onRepo(t, g, dir, "--verify", "sh test.sh", "Fix the sum")
	if r.code != 1 || first.Outcome != api.OutcomeNeedsHuman {
		t.Fatal(r)
	}
	if shown := g.must("task", "show", string(first.ID)); !strings.Contains(shown, "hortus task reply "+string(first.ID)+` "ANSWER"`) {
		t.Errorf("the command is not named: %s", shown)
	}
	r = g.patient("task", "reply", string(first.ID), "--json", "Plus, of course.")
	if r.code != 0 {
		t.Fatal(r)
	}
	next := decode[api.Task](t, r.stdout)
	if next.Outcome != api.OutcomeVerified || next.Continues != first.ID || next.Repo.Workspace != first.Repo.Workspace || len(next.Repo.Files) != 2 {
		t.Errorf("%s", r)
	}
	if again := g.patient("task", "reply", string(first.ID), "Minus."); again.code == 0 || !strings.Contains(again.stderr, string(next.ID)) {
		t.Errorf("a second reply: %s", again)
	}
}
