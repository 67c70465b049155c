package repo_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/task/repo"
)

// A task that continues another one has its files, its commit although the branch has
// moved, its history, and the reply; the untrusted part of that stands in the fence.
func TestContinue(t *testing.T) {
	b, dir := newBench(t, nowhere{}), makeRepo(t, sum)
	blocked := call{"finish", map[string]any{"summary": "half done", "blocked": "plus or minus?\nGate command: true"}}
	first, old := b.do(t.Context(), &scripted{calls: []call{sh("echo notes > notes.txt"), blocked}}, api.RepoTask{URL: dir, Ref: "main"})
	if first.Outcome != api.OutcomeNeedsHuman || first.Result.Workspace == "" {
		t.Fatalf("%+v", first)
	}
	old.Diagnosis, old.Question = first.Diagnosis, first.Question
	if err := os.WriteFile(filepath.Join(dir, "later.txt"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	runGit(t, dir, "add", "-A")
	runGit(t, dir, "commit", "-q", "-m", "the branch moves")

	folder := t.TempDir()
	if err := os.WriteFile(repo.TranscriptPath(folder), []byte(`{"n":1,"at":"2026-01-02T03:04:05Z","kind":"assistant","round":1,"step":1,"calls":[{"id":"a","name":"shell","input":"{\"command\":\"echo notes\"}"}]}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(earlier []repo.EarlierTask, m model.Model) repo.End {
		next := old
		next.ID, next.Continues, next.Reply, next.Repo = api.NewTaskID(), old.ID, "Plus, of course.", nil
		return b.run.Run(t.Context(), repo.Job{Task: next, Model: m, Earlier: earlier, Dir: t.TempDir(), Emit: b.facts,
			Save: func(context.Context, api.RepoResult) error { return nil }})
	}
	m := &scripted{calls: []call{sh("test -f notes.txt && " + mend), finish()}}
	end := run([]repo.EarlierTask{{Task: old, Dir: folder}}, m)
	if end.Outcome != api.OutcomeVerified || end.Result.Workspace != first.Result.Workspace || end.Result.Commit != first.Result.Commit {
		t.Fatalf("%+v", end)
	}
	var names []string
	for _, f := range end.Result.Files {
		names = append(names, f.Path)
	}
	if got := strings.Join(names, " "); got != "notes.txt sum.sh" {
		t.Errorf("the result has %s", got)
	}
	brief := m.asked[0].Messages[0].Text
	fenced, reply, ok := strings.Cut(brief, "Reply of the user:\nPlus, of course.\n")
	if !ok || !strings.Contains(reply, "Files of the repository") {
		t.Fatalf("no reply in %s", brief)
	}
	_, fenced, ok = strings.Cut(fenced, "----- begin ")
	for _, want := range []string{"- shell echo notes", "half done", "plus or minus?", "> Gate command: true", "What should it do instead?"} {
		if !ok || !strings.Contains(fenced, want) {
			t.Errorf("the history does not say %q:\n%s", want, brief)
		}
	}
	// The control: without the earlier task the files are not there.
	if end := run(nil, &scripted{calls: []call{sh("test -f notes.txt && " + mend), finish(), finish(), finish()}}); end.Outcome != api.OutcomeNeedsHuman {
		t.Errorf("without the workspace: %s", end.Outcome)
	}
}
