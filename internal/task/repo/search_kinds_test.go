package repo_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store"
	"hortus.dev/internal/store/sqlite"
	"hortus.dev/internal/task/journal"
	"hortus.dev/internal/task/repo"
)

// TestSearchOfPrograms: an agent that is a program continues the work of another one over the same program, in a conversation of
// its own.
func TestSearchOfPrograms(t *testing.T) {
	t.Parallel()
	b := newBench(t, nowhere{})
	h := &hands{boxes: b.boxes, scripts: []string{"echo 'echo 4' > sum.sh", "test \"$(cat .agent)\" = hands && grep -q 4 sum.sh && " + mend}}
	b.run = repo.New(repo.Config{Git: b.cache, Sandboxes: b.boxes, Deliverer: nowhere{}, Runtimes: h})
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

// TestSearchOfSeveralRepositories: the branch of the chosen one is in each repository, with what the candidates before it wrote.
func TestSearchOfSeveralRepositories(t *testing.T) {
	t.Parallel()
	b := newBench(t, nowhere{})
	remotes := []string{t.TempDir(), t.TempDir()}
	for _, r := range remotes {
		runGit(t, r, "init", "-q", "--bare")
	}
	r := api.RepoTask{
		URL: makeRepo(t, sum), Name: "a", Remote: remotes[0], Push: true, Verify: "cd a && sh test.sh && cd ../b && sh test.sh",
		Also:   []api.TaskRepository{{Name: "b", URL: makeRepo(t, sum), Remote: remotes[1]}},
		Author: api.Identity{Name: "Ada", Email: "ada@example.org"}, Rounds: -1, Budget: api.Budget{Steps: 20}, Best: &api.BestOf{Of: 1, Depth: 2},
	}
	task := api.Task{ID: api.NewTaskID(), Create: api.CreateTask{Request: "Fix the sums", Repo: &r}}
	end := b.run.Run(t.Context(), repo.Job{
		Task: task, Candidates: candidates(levels(sh("cd a && "+mend), sh("cd b && "+mend))), Dir: t.TempDir(), Emit: b.facts,
		Save: func(context.Context, api.RepoResult) error { return nil },
	})
	if end.Outcome != api.OutcomeVerified || len(end.Result.Candidates) != 2 {
		t.Fatalf("%s %v %s: %+v", end.Outcome, end.Error, end.Diagnosis, end.Result.Candidates)
	}
	for i, remote := range remotes {
		want := end.Result.Repositories[i].Head + " refs/heads/" + repo.Branch(task.ID) + "\n"
		if refs := runGit(t, remote, "for-each-ref", "--format=%(objectname) %(refname)"); refs != want {
			t.Errorf("remote %d has %q, want %q", i, refs, want)
		}
	}
	b.nothingLeft(task, end)
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
	db, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "hortus.db")})
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
		ws, err := b.boxes.Workspace(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		if n == wrote {
			if err := os.WriteFile(filepath.Join(b.boxes.spaces[ws].dir, "sum.sh"), []byte("echo 2\n"), 0o644); err != nil {
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
