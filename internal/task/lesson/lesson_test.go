package lesson_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store"
	"hortus.dev/internal/store/database"
	"hortus.dev/internal/task/lesson"
)

// program is a version of a program, which failed with some stderr, or was fine without.
func program(n int, source, install, stderr string) api.Attempt {
	return api.Attempt{N: n,
		Artifact: api.CodeArtifact{Language: api.Python, Files: []api.File{{Path: "main.py", Content: source}}, Install: install, Run: "python3 main.py"},
		Result:   &api.ExecutionResult{OK: stderr == "", Stderr: stderr}}
}

func trace(line int, text string) string {
	return "Traceback (most recent call last):\n  File \"/workspace/main.py\", line " + strings.Repeat("1", line) + "\n" + text + "\n"
}

// ended is a program's task that was verified after one failure.
func ended(text string) api.Task {
	t := api.Task{ID: api.NewTaskID(), State: api.TaskDone, Outcome: api.OutcomeVerified, Model: "m", Plan: &api.ExecutionPlan{Language: api.Python},
		Attempts: []api.Attempt{program(1, "import numpy\nprint(1)\n", "", trace(1, text)), program(2, "import numpy\nprint(2)\n", "python3 -m pip install numpy", "")}}
	t.Attempts[0].Diagnosis = &api.Diagnosis{Cause: "The package numpy is not installed."}
	return t
}

func TestFromPrograms(t *testing.T) {
	const missing = "ModuleNotFoundError: No module named 'numpy'"
	task := ended(missing)
	got := lesson.From(task, "")
	if len(got) != 1 {
		t.Fatalf("%d lessons", len(got))
	}
	l := got[0]
	want := "The package numpy is not installed.\n\ninstall command: none -> python3 -m pip install numpy\n" +
		"--- a/main.py\n+++ b/main.py\n@@ -1,2 +1,2 @@\n import numpy\n-print(1)\n+print(2)"
	if l.Scope != "language:python" || l.Task != task.ID || l.Failure != missing || l.Fix != want {
		t.Errorf("%+v\n%s", l, l.Fix)
	}

	for name, change := range map[string]func(*api.Task){
		"not verified":    func(t *api.Task) { t.Outcome = api.OutcomeNeedsHuman },
		"canceled":        func(t *api.Task) { t.Outcome = api.OutcomeCanceled },
		"a replay":        func(t *api.Task) { t.Create.Replay = &api.Replay{} },
		"a recording":     func(t *api.Task) { t.Model = "replay:x" },
		"no failure":      func(t *api.Task) { t.Attempts = t.Attempts[1:] },
		"the last failed": func(t *api.Task) { t.Attempts = t.Attempts[:1] },
		"the same again":  func(t *api.Task) { t.Attempts[1] = program(2, "x", "y", trace(3, missing)) },
		"a caution":       func(t *api.Task) { t.Attempts[1].Result.Cautions = []api.Caution{{Uses: "x"}} },
		"nothing is said": func(t *api.Task) { t.Attempts[0].Result.Stderr = "3\n" },
	} {
		task := ended(missing)
		change(&task)
		if got := lesson.From(task, ""); len(got) != 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
	big := ended(missing)
	big.Attempts[1].Artifact.Files[0].Content = strings.Repeat("print(3)\n", 5000)
	if got := lesson.From(big, ""); len(got) != 1 || len(got[0].Fix) > api.MaxLessonFix || !strings.HasSuffix(got[0].Fix, "[cut]") {
		t.Errorf("%d lessons", len(got))
	}
}

func TestFromRepositories(t *testing.T) {
	const patch = "--- a/sum.go\n+++ b/sum.go\n@@ -1 +1 @@\n-a\n+b\n"
	failed := func(test string) *api.Gate { return &api.Gate{Output: "--- FAIL: " + test + " (0.01s)\n"} }
	task := api.Task{ID: api.NewTaskID(), Account: "a", Outcome: api.OutcomeVerified,
		Create: api.CreateTask{Repo: &api.RepoTask{URL: "https://user:secret@example.org/team/sum.git"}},
		Repo: &api.RepoResult{Summary: "The sum is right now.", Delivery: &api.Delivery{Pushed: "origin"}, Before: failed("TestSum"), Rounds: []api.Round{
			{N: 1, Gate: failed("TestMean")}, {N: 2, Gate: failed("TestSum")}, {N: 3, Gate: &api.Gate{Passed: true}}}}}
	got := lesson.From(task, patch)
	if len(got) != 2 || got[0].Failure != "--- FAIL: TestSum (TIME)" || got[1].Failure != "--- FAIL: TestMean (TIME)" {
		t.Fatalf("%+v", got)
	}
	if l := got[0]; l.Scope != "https://example.org/team/sum" || l.Account != "a" || l.Fix != strings.TrimSpace("The sum is right now.\n\n"+patch) {
		t.Errorf("%+v", l)
	}
	for _, same := range []string{"https://example.org/team/sum", "https://token@example.org/team/sum.git/", "https://example.org/team/sum?x=1#y"} {
		other := task
		other.Create.Repo = &api.RepoTask{URL: same}
		if scope := lesson.Scope(other); scope != got[0].Scope {
			t.Errorf("%s has the scope %s", same, scope)
		}
	}
	if got := lesson.From(task, ""); len(got) != 0 {
		t.Error("lessons without a patch:", got)
	}
	// What may have deceived its tests, and what nobody took, teaches nothing.
	for name, c := range map[string]struct {
		change func(*api.RepoResult)
		want   int
	}{
		"not delivered": {func(r *api.RepoResult) { r.Delivery = nil }, 0},
		"a delivery that fails": {func(r *api.RepoResult) {
			r.Delivery = &api.Delivery{Error: api.AsError(api.Errorf(api.KindDenied, "no"))}
		}, 0},
		"applied": {func(r *api.RepoResult) { r.Delivery, r.Applied = nil, true }, 2},
		"one of several": {func(r *api.RepoResult) {
			r.Delivery, r.Repositories = nil, []api.RepositoryResult{{Delivery: &api.Delivery{Pushed: "o"}}}
		}, 2},
		"a caution":     {func(r *api.RepoResult) { r.Cautions = []api.Caution{{Uses: "os._exit"}} }, 0},
		"a binary file": {func(r *api.RepoResult) { r.Files = []api.FileChange{{Status: "added", Binary: true}} }, 0},
		"an unstable test": {func(r *api.RepoResult) {
			r.Rounds = []api.Round{{Gate: &api.Gate{Passed: true, Tests: &api.TestReport{Unstable: []api.UnstableTest{{Name: "a"}}}}}}
		}, 0},
	} {
		other := task
		res := *task.Repo
		c.change(&res)
		if other.Repo = &res; len(lesson.From(other, patch)) != c.want {
			t.Errorf("%s: %d lessons, want %d", name, len(lesson.From(other, patch)), c.want)
		}
	}
}

func open(t *testing.T) *database.DB {
	t.Helper()
	db, err := database.OpenSQLite(t.Context(), database.SQLite{Path: filepath.Join(t.TempDir(), "hortus.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func TestBook(t *testing.T) {
	db, ctx := open(t), t.Context()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	book := lesson.New(lesson.Config{Rows: db, Now: func() time.Time { return now }})
	const missing = "ModuleNotFoundError: No module named 'numpy'"
	first := ended(missing)
	if err := book.Learn(ctx, first, ""); err != nil {
		t.Fatal(err)
	}
	about := func(account, scope, output string) []api.FoundLesson {
		t.Helper()
		got, err := book.About(ctx, account, scope, output)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	same := about("", "language:python", trace(3, missing))
	if len(same) != 1 || same[0].Task != first.ID || same[0].By != api.LessonByFingerprint {
		t.Fatalf("%+v", same)
	}
	for _, c := range []struct{ name, account, scope, output string }{
		{"another account", "a", "language:python", missing},
		{"another language", "", "language:go", missing},
		{"no scope", "", "", missing},
		{"another failure", "", "language:python", "PermissionError: socket of the printer"},
		{"no failure", "", "language:python", "42"},
	} {
		if got := about(c.account, c.scope, c.output); len(got) != 0 {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
	// A failure like it, which has another fingerprint.
	if got := about("", "language:python", "ModuleNotFoundError: No module named 'numpy.linalg'"); len(got) != 1 || got[0].By != api.LessonByText {
		t.Errorf("%d lessons about a failure like it", len(got))
	}

	// Tasks that were given it and were not verified: it is not offered any more, until it has helped.
	given := api.Task{ID: api.NewTaskID(), Outcome: api.OutcomeNeedsHuman, Lessons: []string{same[0].ID}}
	canceled := given
	canceled.Outcome = api.OutcomeCanceled
	for n := range 5 {
		if got := about("", "language:python", missing); len(got) != 1 || got[0].Offered != n {
			t.Fatalf("after %d: %+v", n, got)
		}
		for _, task := range []api.Task{given, canceled} {
			if err := book.Learn(ctx, task, ""); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := about("", "language:python", missing); len(got) != 0 {
		t.Errorf("still offered: %+v", got)
	}
	given.Outcome = api.OutcomeVerified
	if err := book.Learn(ctx, given, ""); err != nil {
		t.Fatal(err)
	}
	if got := about("", "language:python", missing); len(got) != 1 || got[0].Helped != 1 || got[0].Offered != 6 {
		t.Errorf("%+v", got)
	}

	// More than are offered: the one about the same failure is the first.
	for _, name := range []string{"numpy.fft", "numpy.random", "numpy.core", "numpy.testing"} {
		if err := book.Learn(ctx, ended("ModuleNotFoundError: No module named '"+name+"'"), ""); err != nil {
			t.Fatal(err)
		}
	}
	if got := about("", "language:python", missing); len(got) != api.MaxLessonsOffered || got[0].ID != same[0].ID {
		t.Errorf("%+v", got)
	}
}

// TestBookWithoutStore: an error of the store is told, not taken for an empty book.
func TestBookWithoutStore(t *testing.T) {
	db := open(t)
	db.Close()
	book := lesson.New(lesson.Config{Rows: db})
	if _, err := book.About(t.Context(), "", "language:python", "TypeError: x"); api.KindOf(err) != api.KindUnavailable {
		t.Error(err)
	}
	if err := book.Learn(t.Context(), ended("TypeError: x"), ""); api.KindOf(err) != api.KindUnavailable {
		t.Error(err)
	}
}

var _ lesson.Rows = store.Store(nil)
