package repo_test

import (
	"testing"

	"hortus.dev/api"
)

// A task in a named workspace has the files that an earlier task left there. The control has
// another name.
func TestNamedWorkspace(t *testing.T) {
	b, dir := newBench(t, nowhere{}), makeRepo(t, sum)
	blocked := call{"finish", map[string]any{"summary": "half done", "blocked": "plus or minus?"}}
	first, _ := b.do(t.Context(), &scripted{calls: []call{sh("echo notes > notes.txt"), blocked}}, api.RepoTask{URL: dir, Ref: "main", Workspace: "fix"})
	if first.Outcome != api.OutcomeNeedsHuman || first.Result.Workspace == "" {
		t.Fatalf("%+v", first)
	}
	for name, want := range map[string]api.Outcome{"fix": api.OutcomeVerified, "other": api.OutcomeNeedsHuman} {
		end, _ := b.do(t.Context(), &scripted{calls: []call{sh("test -f notes.txt && " + mend), finish(), finish(), finish()}}, api.RepoTask{URL: dir, Ref: "main", Workspace: name})
		if end.Outcome != want || (end.Result.Workspace == first.Result.Workspace) != (name == "fix") {
			t.Errorf("%s: %+v", name, end)
		}
	}
}
