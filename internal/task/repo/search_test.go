package repo_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store"
	"hortus.dev/internal/store/database"
	"hortus.dev/internal/task/journal"
	"hortus.dev/internal/task/repo"
	"hortus.dev/test/tier"
)

// Fork implements repo.Sandboxes.
func (l *local) Fork(_ context.Context, _ api.TaskID, from api.WorkspaceID) (api.WorkspaceID, error) {
	l.mu.Lock()
	now, was := l.spaces[from], l.layers[repo.Layer(from)]
	l.mu.Unlock()
	if now.dir == "" {
		return "", api.Errorf(api.KindNotFound, "no workspace %s", from)
	}
	id := api.NewWorkspaceID()
	base, d := l.dir(), l.dir()
	if err := copyTree(was.dir, base); err != nil {
		return "", err
	}
	if err := copyTree(now.dir, d); err != nil {
		return "", err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.spaces[id], l.layers[repo.Layer(id)] = stack{dir: d}, stack{dir: base}
	return id, nil
}

// four is a repository with four functions that are wrong, each with a test.
var four = map[string]string{
	"calc.py": "def f1():\n    return 0\ndef f2():\n    return 0\ndef f3():\n    return 0\ndef f4():\n    return 0\n",
	"test_calc.py": "import unittest\nimport calc\nclass T(unittest.TestCase):\n    def test_1(self):\n        self.assertEqual(calc.f1(), 1)\n    def test_2(self):\n        self.assertEqual(calc.f2(), 1)\n" +
		"    def test_3(self):\n        self.assertEqual(calc.f3(), 1)\n    def test_4(self):\n        self.assertEqual(calc.f4(), 1)\n",
}

// sets sets what functions return.
func sets(value int, functions ...int) call {
	cmd := "true"
	for _, f := range functions {
		cmd += fmt.Sprintf("; sed -i '%ds/.*/    return %d/' calc.py", 2*f, value)
	}
	return sh(cmd)
}

// fix repairs functions, and spoil undoes it.
func fix(functions ...int) call   { return sets(1, functions...) }
func spoil(functions ...int) call { return sets(2, functions...) }

// levels are the calls of a candidate's model: one for each level.
func levels(calls ...call) (out []call) {
	for _, c := range calls {
		out = append(out, c, finish())
	}
	return out
}

func TestSearch(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed")
	}
	for _, c := range tier.First(3, []struct {
		name  string
		depth int
		calls [][]call
		first bool
		// parents are those of all candidates.
		parents []int
		best    int
		outcome api.Outcome
		says    string
		kept    string // the numbers of the functions that the result repairs
	}{
		{name: "it returns to another branch", depth: 3, calls: [][]call{levels(fix(1, 2, 3), spoil(1, 2), fix(3, 4)), levels(fix(1, 2), spoil(1, 2, 3), fix(1))},
			parents: []int{0, 0, 1, 1, 2, 2}, best: 5, outcome: api.OutcomeVerified, kept: "1234"},
		{name: "no level passes", depth: 2, calls: [][]call{levels(fix(1, 2, 3), spoil(1)), levels(fix(1), spoil(1, 2))},
			parents: []int{0, 0, 1, 1}, best: 1, outcome: api.OutcomeNeedsHuman, says: "None of 4 candidates on 2 levels passed. The best one is candidate 1: The gate fails", kept: "123"},
		{name: "the first that passes", depth: 2, first: true, calls: [][]call{levels(fix(1), fix(2, 3, 4)), append(levels(fix()), slices.Repeat([]call{sh("sleep 60")}, 9)...)},
			parents: []int{0, 0, 1, 1}, best: 3, outcome: api.OutcomeVerified, kept: "1234"},
		{name: "a child of the best one", depth: 2, calls: [][]call{levels(fix(1), fix(3, 4)), levels(fix(1, 2), fix(1))},
			parents: []int{0, 0, 2, 2}, best: 3, outcome: api.OutcomeVerified, kept: "1234"},
		{name: "it ends with the first level that passes", depth: 4, calls: [][]call{levels(fix(1)), levels(fix(1, 2, 3, 4))},
			parents: []int{0, 0}, best: 2, outcome: api.OutcomeVerified, kept: "1234"},
		{name: "the best one of that level wins", depth: 2, calls: [][]call{levels(fix(1), fix(2, 3, 4)), levels(spoil(1), sh("sed -i 's/0/1/; $a X = 1' calc.py"))},
			parents: []int{0, 0, 1, 1}, best: 3, outcome: api.OutcomeVerified, kept: "1234"},
		{name: "one candidate on each level", depth: 6, calls: [][]call{levels(fix(1), fix(2), fix(3), fix(4))},
			parents: []int{0, 1, 2, 3}, best: 4, outcome: api.OutcomeVerified, kept: "1234"},
		{name: "one level is best of several", depth: 1, calls: [][]call{levels(fix(1)), levels(fix(1, 2))},
			parents: []int{0, 0}, best: 2, outcome: api.OutcomeNeedsHuman, says: "None of 2 candidates passed. The best one is candidate 2", kept: "12"},
	}) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, nowhere{})
			all := candidates(c.calls...)
			end, task := b.best(t.Context(), all, api.RepoTask{URL: makeRepo(t, four), Best: &api.BestOf{Depth: c.depth, First: c.first}, Budget: api.Budget{Steps: 1000}})
			rows := end.Result.Candidates
			var parents []int
			for _, r := range rows {
				parents = append(parents, r.Parent)
				level := 0
				if c.depth > 1 {
					level = 1 + (r.N-1)/len(all)
				}
				if r.Level != level || r.State != api.CandidateEnded || r.Why == "" || r.Chosen != (r.N == c.best) || r.Workspace != "" && !r.Chosen {
					t.Errorf("%+v", r)
				}
			}
			if end.Outcome != c.outcome || !slices.Equal(parents, c.parents) || !strings.Contains(end.Diagnosis, c.says) {
				t.Fatalf("%s %v %s: parents %v\n%+v", end.Outcome, end.Error, end.Diagnosis, parents, rows)
			}
			if usage := 2 * len(rows); end.Usage.Requests != usage && !c.first {
				t.Errorf("%d requests, want %d", end.Usage.Requests, usage)
			}
			patch := patchOf(t, b, task)
			repaired := ""
			for f := 1; f <= 4; f++ {
				if strings.Contains(patch, fmt.Sprintf(" def f%d():\n-    return 0\n+    return 1\n", f)) {
					repaired += fmt.Sprint(f)
				}
			}
			if repaired != c.kept {
				t.Errorf("the result repairs %q, want %q:\n%s", repaired, c.kept, patch)
			}
		})
	}
}

// patchOf is the patch of a task's result.
func patchOf(t *testing.T, b *bench, task api.Task) string {
	t.Helper()
	r, err := b.run.Diff(t.Context(), task, 0, "")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var text strings.Builder
	buf := make([]byte, 1<<20)
	for {
		n, err := r.Read(buf)
		if text.Write(buf[:n]); err != nil {
			return text.String()
		}
	}
}

// TestSearchAccount: a candidate that continues another one is told what that one did and how the gate failed, it has its part
// of the budgets, and everything that it does names it.
func TestSearchAccount(t *testing.T) {
	t.Parallel()
	b := newBench(t, nowhere{})
	calls := []call{sh("echo 'echo 4' > sum.sh"), finish(), sh("cat sum.sh; echo 'echo 6' > sum.sh"), finish(), sh("true"), sh("pwd"), sh("ls"), sh("id"), sh("ls -l")}
	all := candidates(calls)
	end, _ := b.best(t.Context(), all, api.RepoTask{URL: makeRepo(t, sum), Best: &api.BestOf{Depth: 3}, Budget: api.Budget{Steps: 11, CostUSD: 3}})
	asked := all[0].Model.(*scripted).asked
	if len(asked) != 2+2+3 || end.Outcome != api.OutcomeNeedsHuman {
		t.Fatalf("%d requests, %s %v", len(asked), end.Outcome, end.Error)
	}
	if first := asked[0].Messages[0].Text; strings.Contains(first, "earlier work") {
		t.Errorf("the first one is told of earlier work: %s", first)
	}
	for i, want := range map[int][]string{
		2: {"Continue earlier work on this request.", "earlier work 1 of 1\nTool calls:\n- shell", "echo 4", "Summary:\ndone", "Result:\nThe gate fails: exit code 1", "The gate command on these files: exit code 1.\n", "want 5", "Approach for this attempt: plan 1"},
		4: {"earlier work 1 of 2\n", "echo 4", "earlier work 2 of 2\n", "echo 6"},
	} {
		for _, text := range want {
			if got := asked[i].Messages[0].Text; !strings.Contains(got, text) {
				t.Errorf("request %d lacks %q:\n%s", i, text, got)
			}
		}
	}
	if m := asked[3].Messages; !strings.Contains(m[len(m)-1].Text, "echo 4") {
		t.Errorf("the files are not those of the candidate before: %q", m[len(m)-1].Text)
	}
	if r := end.Result.Candidates[2]; r.Steps != 3 || r.Level != 3 || r.Parent != 2 {
		t.Errorf("%+v", r)
	}
	named := map[int]bool{}
	for _, s := range b.facts.steps {
		named[s.Candidate] = true
	}
	if !named[1] || !named[2] || !named[3] {
		t.Errorf("the events name %v", named)
	}
}

// TestSearchForkFails: candidates whose files cannot be made end, and what was reached before is kept.
func TestSearchForkFails(t *testing.T) {
	t.Parallel()
	b := newBench(t, nowhere{})
	var gone api.WorkspaceID
	b.facts.after = func(e api.RepoStepEvent) {
		if e.Step != "gate" || !e.Done || e.Candidate != 1 {
			return
		}
		b.sandboxes.mu.Lock()
		defer b.sandboxes.mu.Unlock()
		for id := range b.sandboxes.spaces { // the only one
			gone = id
			delete(b.sandboxes.spaces, id)
		}
	}
	end, _ := b.best(t.Context(), candidates([]call{sh("echo 'echo 4' > sum.sh"), finish()}), api.RepoTask{URL: makeRepo(t, sum), Best: &api.BestOf{Depth: 3}})
	rows := end.Result.Candidates
	if len(rows) != 2 || !rows[0].Chosen || !strings.Contains(rows[1].Why, "no workspace "+string(gone)) || end.Outcome != api.OutcomeNeedsHuman || end.Result.Head == "" {
		t.Fatalf("%s %v: %+v", end.Outcome, end.Error, rows)
	}
}

// Fork implements repo.Sandboxes.
func (d disk) Fork(_ context.Context, _ api.TaskID, from api.WorkspaceID) (api.WorkspaceID, error) {
	id := api.NewWorkspaceID()
	d.mu.Lock()
	was := d.spaces[from].dir
	d.mu.Unlock()
	if was == "" {
		return "", api.Errorf(api.KindNotFound, "no workspace %s", from)
	}
	path, err := d.put("spaces", string(id), func(dir string) error { return copyTree(filepath.Dir(was), dir) })
	d.mu.Lock()
	defer d.mu.Unlock()
	d.spaces[id] = stack{dir: filepath.Join(path, "now")}
	d.layers[repo.Layer(id)] = stack{dir: filepath.Join(path, "was")}
	return id, err
}

// TestSearchOfPrograms: an agent that is a program continues the work of another one over the same program, in a conversation of
// its own.
func TestSearchOfPrograms(t *testing.T) {
	t.Parallel()
	b := newBench(t, nowhere{})
	h := &hands{sandboxes: b.sandboxes, scripts: []string{"echo 'echo 4' > sum.sh", "test \"$(cat .agent)\" = hands && grep -q 4 sum.sh && " + mend}}
	b.run = repo.New(repo.Config{Git: b.cache, Sandboxes: b.sandboxes, Deliverer: nowhere{}, Runtimes: h})
	end, _ := b.best(t.Context(), []repo.Candidate{{Agent: "hands"}}, api.RepoTask{URL: makeRepo(t, sum), Agent: "hands", Best: &api.BestOf{Depth: 3}})
	if rows := end.Result.Candidates; end.Outcome != api.OutcomeVerified || len(rows) != 2 || !rows[1].Chosen || h.released != 2 {
		t.Fatalf("%s %v, released %d times: %+v", end.Outcome, end.Error, h.released, rows)
	}
	if m := h.messages[1]; !strings.Contains(m, "earlier work 1 of 1") || !strings.Contains(m, "want 5") || strings.Contains(m, "call finish") {
		t.Errorf("the second one was told: %s", m)
	}
}

// TestSearchForValue: work that passes the gate without the value of a schema is continued, and the value is that of the one that
// gives it.
func TestSearchForValue(t *testing.T) {
	t.Parallel()
	b := newBench(t, nowhere{})
	b.schema = json.RawMessage(`{"type":"object","required":["fixed"],"properties":{"fixed":{"type":"integer"}}}`)
	calls := []call{sh(mend), {}, {}, sh("cat sum.sh"), with(map[string]any{"fixed": 7})}
	all := candidates(calls)
	end, _ := b.best(t.Context(), all, api.RepoTask{URL: makeRepo(t, sum), Best: &api.BestOf{Depth: 2}})
	if rows := end.Result.Candidates; end.Outcome != api.OutcomeVerified || len(rows) != 2 || rows[1].Parent != 1 || string(end.Value) != `{"fixed":7}` {
		t.Fatalf("%s %v %s %s: %+v", end.Outcome, end.Error, end.Diagnosis, end.Value, rows)
	}
	if m := all[0].Model.(*scripted).asked[3].Messages[0].Text; !strings.Contains(m, "The gate passes, but the agent gave no value") || strings.Contains(m, "The gate command on these files") {
		t.Errorf("the second one was told: %s", m)
	}
}

// TestBestCanceledBeforeItContinues: a task that goes on after a crash and is canceled before its candidates do has no workspace but
// that of the chosen one, with what was written there.
func TestBestCanceledBeforeItContinues(t *testing.T) {
	// Before its candidates are there again, what they wrote is not known, and the first one is taken.
	for step, best := range map[string]int{"fetch": 1, "checkout": 1, "gate": 2} {
		t.Run(step, func(t *testing.T) { canceledBefore(t, step, best) })
	}
}

func canceledBefore(t *testing.T, step string, wrote int) {
	t.Parallel()
	b := newBench(t, nowhere{})
	dir := makeRepo(t, sum)
	db, err := database.OpenSQLite(t.Context(), database.SQLite{Path: filepath.Join(t.TempDir(), "hortus.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	owner := api.NewOwnerID()
	if err := db.InsertOwner(t.Context(), store.Owner{ID: owner, StartedAt: time.Now()}); err != nil {
		t.Fatal(err)
	}
	row := api.RepoResult{Commit: strings.TrimSpace(runGit(t, dir, "rev-parse", "HEAD"))}
	for n := 1; n <= 3; n++ {
		ws, err := b.sandboxes.Workspace(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		if n == wrote {
			if err := os.WriteFile(filepath.Join(b.sandboxes.spaces[ws].dir, "sum.sh"), []byte("echo 2\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		row.Candidates = append(row.Candidates, api.Candidate{N: n, State: api.CandidateRunning, Workspace: string(ws)})
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	b.facts.after = func(e api.RepoStepEvent) {
		if e.Step == step && e.Done {
			cancel()
		}
	}
	r := api.RepoTask{URL: dir, Verify: "sh test.sh", Author: api.Identity{Name: "Ada", Email: "ada@example.org"}, Rounds: -1, Budget: api.Budget{Steps: 60}, Best: &api.BestOf{Of: 3}}
	task := api.Task{ID: api.NewTaskID(), Repo: &row, Create: api.CreateTask{Request: "Fix the sum", Repo: &r}}
	row.Branch = repo.Branch(task.ID)
	run, err := journal.New(journal.Config{Rows: db, Owner: owner}).Begin(t.Context(), string(task.ID), "task", nil)
	if err != nil {
		t.Fatal(err)
	}
	end := b.run.Run(ctx, repo.Job{
		Task: task, Run: run, Candidates: candidates(nil, nil, nil), Dir: t.TempDir(), Emit: b.facts, Save: func(context.Context, api.RepoResult) error { return nil },
	})
	if r := end.Result; end.Outcome != api.OutcomeCanceled || string(r.Workspace) != row.Candidates[wrote-1].Workspace || r.Head == "" || !r.Partial || !r.Candidates[wrote-1].Chosen {
		t.Errorf("%s %v, workspace %q, head %q", end.Outcome, end.Error, r.Workspace, r.Head)
	}
	b.nothingLeft(task, end)
}
