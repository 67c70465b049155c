package repo_test

import (
	"context"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent/loop"
	"hortus.dev/internal/store"
	"hortus.dev/internal/store/database"
	"hortus.dev/internal/task/journal"
	"hortus.dev/internal/task/repo"
)

// hands are an agent that is a program: it runs a script each round, in the sandbox that it is given.
type hands struct {
	sandboxes *local
	scripts   []string
	fails     error
	released  int
	messages  []string
	during    func() // called in each round before its script
	writes    string // a file, before its script
	loses     bool   // the sandbox of each message, which is replaced before its script
}

// Prepare implements repo.Runtimes.
func (h *hands) Prepare(ctx context.Context, task api.Task, q repo.SetupRequest) (repo.Runtime, error) {
	if h.fails != nil {
		return repo.Runtime{}, h.fails
	}
	l, _, err := h.sandboxes.Layer(ctx, "agent", func(_ context.Context, dir string) error {
		return os.WriteFile(filepath.Join(dir, ".agent"), []byte(task.Create.Repo.Agent), 0o644)
	})
	return repo.Runtime{
		Label: "hands 1", Obeys: []string{".hands"}, Layer: l, Release: func() { h.released++ }, Secrets: []api.SecretGrant{{Name: "key"}},
		New: func(d repo.WorkerConfig) repo.Worker { return &worker{h, d} },
	}, err
}

// worker works on one task.
type worker struct {
	*hands
	desk repo.WorkerConfig
}

// Fresh implements repo.Worker.
func (w *worker) Fresh() { w.messages = append(w.messages, "fresh") }

// Run implements repo.Worker.
func (w *worker) Run(ctx context.Context, message string) loop.Report {
	w.messages = append(w.messages, message)
	if w.loses {
		if err := w.desk.Replace(ctx, 1, api.Errorf(api.KindUnavailable, "the sandbox is gone")); err != nil {
			return loop.Report{Stop: api.StopSandbox, Err: err, Why: err.Error()}
		}
	}
	if w.writes != "" {
		if err := w.desk.Write(ctx, w.writes, []byte("{}")); err != nil {
			return loop.Report{Stop: api.StopModel, Err: err, Why: err.Error()}
		}
	}
	if w.during != nil {
		w.during()
	}
	if ctx.Err() != nil {
		return loop.Report{Stop: api.StopCanceled, Err: ctx.Err()}
	}
	n := len(w.messages)
	for _, m := range w.messages {
		if m == "fresh" {
			n--
		}
	}
	script := w.scripts[min(n, len(w.scripts))-1]
	if script == "" {
		return loop.Report{Stop: api.StopEnded, Text: "I did it"}
	}
	c, err := w.desk.Sandbox.Talk(ctx, api.ExecRequest{Args: []string{"sh", "-c", script}, Dir: repo.Workspace})
	if err != nil {
		return loop.Report{Stop: api.StopModel, Err: err, Why: err.Error()}
	}
	defer c.Close()
	_, err = io.ReadAll(c)
	return loop.Report{Stop: api.StopEnded, Steps: 1, Text: "I did it", Err: err}
}

// TestExternalAgent: the gate decides about an agent that is a program as about any other.
func TestExternalAgent(t *testing.T) {
	for _, c := range []struct {
		name    string
		scripts []string
		fails   error
		outcome api.Outcome
		rounds  int
		says    string
	}{
		{"mended", []string{"test \"$(cat .agent)\" = hands && " + mend}, nil, api.OutcomeVerified, 1, ""},
		{"a wrong first fix", []string{"echo 'echo 4' > sum.sh", mend}, nil, api.OutcomeVerified, 2, ""},
		{"ends its turn with nothing written", []string{""}, nil, api.OutcomeNeedsHuman, 3, "changed nothing, and the gate still fails"},
		{"not installed", nil, api.Errorf(api.KindUnavailable, "no registry"), api.OutcomeFailed, 0, "no registry"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, nowhere{})
			h := &hands{sandboxes: b.sandboxes, scripts: c.scripts, fails: c.fails}
			b.run = repo.New(repo.Config{Git: b.cache, Sandboxes: b.sandboxes, Deliverer: nowhere{}, Runtimes: h})
			task := api.Task{ID: api.NewTaskID(), Create: api.CreateTask{Request: "Fix the sum", Repo: &api.RepoTask{
				URL: makeRepo(t, sum), Verify: "sh test.sh", Agent: "hands", Rounds: 2, Author: api.Identity{Name: "Ada", Email: "ada@example.org"},
			}}}
			end := b.run.Run(t.Context(), repo.Job{Task: task, Agent: "hands", Dir: t.TempDir(), Emit: b.facts, Save: func(context.Context, api.RepoResult) error { return nil }})
			why := end.Diagnosis
			if end.Error != nil {
				why += end.Error.Message
			}
			if end.Outcome != c.outcome || len(end.Result.Rounds) != c.rounds || !strings.Contains(why, c.says) {
				t.Fatalf("%s after %d rounds: %s", end.Outcome, len(end.Result.Rounds), why)
			}
			if c.fails != nil {
				return // there is nothing to release
			}
			if h.released != 1 {
				t.Errorf("the agent was released %d times", h.released)
			}
			if got := end.Result.Rounds[0].Agent; got != "hands 1" {
				t.Errorf("the round names the agent %q", got)
			}
			for i, m := range h.messages {
				if strings.Contains(m, "call finish") || strings.Contains(m, "The gate failed") != (i > 0) {
					t.Errorf("message %d:\n%s", i+1, m)
				}
			}
		})
	}
}

// TestObeyedFiles: a repository that has what the agent would follow is refused, unless that is off limits. Names that only
// begin alike are taken.
func TestObeyedFiles(t *testing.T) {
	for _, c := range []struct {
		path, off string
		refused   bool
	}{
		{".hands/config.toml", "", true},
		{".hands", "", true},
		{".hands/config.toml", ".hands/**", false},
		{".handsome/config.toml", "", false},
	} {
		b := newBench(t, nowhere{})
		h := &hands{sandboxes: b.sandboxes, scripts: []string{mend}}
		b.run = repo.New(repo.Config{Git: b.cache, Sandboxes: b.sandboxes, Deliverer: nowhere{}, Runtimes: h})
		files := maps.Clone(sum)
		files[c.path] = "command = 'evil'"
		create := api.RepoTask{URL: makeRepo(t, files), Verify: "sh test.sh", Agent: "hands", Author: api.Identity{Name: "Ada", Email: "ada@example.org"}}
		if c.off != "" {
			create.FilePolicy.OffLimits = []string{c.off}
		}
		task := api.Task{ID: api.NewTaskID(), Create: api.CreateTask{Request: "Fix the sum", Repo: &create}}
		end := b.run.Run(t.Context(), repo.Job{Task: task, Agent: "hands", Dir: t.TempDir(), Emit: b.facts, Save: func(context.Context, api.RepoResult) error { return nil }})
		refused := end.Error != nil && end.Error.Kind == api.KindDenied && strings.Contains(end.Error.Hint, "--off-limits")
		if refused != c.refused || len(h.messages) > 0 == c.refused {
			t.Errorf("%s with %q off limits: %s, %+v, %d messages", c.path, c.off, end.Outcome, end.Error, len(h.messages))
		}
	}
}

// TestExternalAgentFiles: the configuration of an agent is written whatever the file policy says of the repository.
func TestExternalAgentFiles(t *testing.T) {
	b := newBench(t, nowhere{})
	h := &hands{sandboxes: b.sandboxes, scripts: []string{"test -f .git/home/settings.json && " + mend}, writes: repo.Workspace + "/.git/home/settings.json"}
	b.run = repo.New(repo.Config{Git: b.cache, Sandboxes: b.sandboxes, Deliverer: nowhere{}, Runtimes: h})
	task := api.Task{ID: api.NewTaskID(), Create: api.CreateTask{Request: "Fix the sum", Repo: &api.RepoTask{
		URL: makeRepo(t, sum), Verify: "sh test.sh", Agent: "hands", FilePolicy: api.FilePolicy{Writable: []string{"sum.sh"}}, Author: api.Identity{Name: "Ada", Email: "ada@example.org"},
	}}}
	end := b.run.Run(t.Context(), repo.Job{Task: task, Agent: "hands", Dir: t.TempDir(), Emit: b.facts, Save: func(context.Context, api.RepoResult) error { return nil }})
	if end.Outcome != api.OutcomeVerified {
		t.Errorf("%s: %s %+v", end.Outcome, end.Diagnosis, end.Error)
	}
}

// TestNoExternalAgents: a runner without them says so.
func TestNoExternalAgents(t *testing.T) {
	b := newBench(t, nowhere{})
	task := api.Task{ID: api.NewTaskID(), Create: api.CreateTask{Request: "Fix the sum", Repo: &api.RepoTask{URL: makeRepo(t, sum), Verify: "sh test.sh", Agent: "hands"}}}
	end := b.run.Run(t.Context(), repo.Job{Task: task, Agent: "hands", Dir: t.TempDir(), Emit: b.facts, Save: func(context.Context, api.RepoResult) error { return nil }})
	if end.Error == nil || end.Error.Kind != api.KindUnsupported {
		t.Errorf("%+v", end)
	}
}

// TestExternalAgentGoesOn: a turn that was cut begins again, and the agent is told; one that ended is not repeated. Sandboxes
// that are lost are replaced in each of them, also by the second process.
func TestExternalAgentGoesOn(t *testing.T) {
	t.Parallel()
	b := newBench(t, nowhere{})
	h := &hands{sandboxes: b.sandboxes, scripts: []string{"echo 'echo 4' > sum.sh", "", mend}, loses: true}
	b.run = repo.New(repo.Config{Git: b.cache, Sandboxes: b.sandboxes, Deliverer: nowhere{}, Runtimes: h})
	db, err := database.OpenSQLite(t.Context(), database.SQLite{Path: filepath.Join(t.TempDir(), "hortus.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	open := func() (*journal.Journal, api.OwnerID) {
		owner := api.NewOwnerID()
		if err := db.InsertOwner(t.Context(), store.Owner{ID: owner, StartedAt: time.Now()}); err != nil {
			t.Fatal(err)
		}
		return journal.New(journal.Config{Rows: db, Owner: owner}), owner
	}
	task := api.Task{ID: api.NewTaskID(), CreatedAt: time.Now(), Create: api.CreateTask{Request: "Fix the sum", Repo: &api.RepoTask{
		URL: makeRepo(t, sum), Verify: "sh test.sh", Agent: "hands", Rounds: 3, Author: api.Identity{Name: "Ada", Email: "ada@example.org"},
	}}}
	dir := t.TempDir()
	work := func(ctx context.Context, run *journal.Run) repo.End {
		return b.run.Run(ctx, repo.Job{Task: task, Agent: "hands", Dir: dir, Emit: b.facts, Run: run,
			Save: func(_ context.Context, r api.RepoResult) error { task.Repo = &r; return nil }})
	}

	// The first process ends in the second turn.
	first, owner := open()
	run, err := first.Begin(t.Context(), string(task.ID), "task", nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, kill := context.WithCancel(t.Context())
	h.during = func() {
		if len(h.messages) == 2 {
			kill()
		}
	}
	if end := work(ctx, run); end.Outcome != api.OutcomeCanceled || len(h.messages) != 2 {
		t.Fatalf("%s after %d messages", end.Outcome, len(h.messages))
	}

	second, _ := open()
	if run, err = second.Take(t.Context(), string(task.ID), owner); err != nil {
		t.Fatal(err)
	}
	end := work(t.Context(), run)
	if end.Outcome != api.OutcomeVerified || len(end.Result.Rounds) != 2 || len(h.messages) != 3 {
		t.Fatalf("%s after %d rounds and %d messages: %s", end.Outcome, len(end.Result.Rounds), len(h.messages), end.Diagnosis)
	}
	if again := b.facts.again; len(again) != 3 || again[2].What != api.RetrySandbox || again[2].Attempt != 1 || again[2].Error != "the sandbox is gone" {
		t.Errorf("%d sandboxes were replaced, want 3: %+v", len(again), again)
	}
	const cut = "interrupted by a restart"
	if m := h.messages[2]; !strings.Contains(m, cut) || !strings.HasSuffix(m, h.messages[1]) {
		t.Errorf("the turn that was cut begins again with:\n%s", m)
	}
	if strings.Contains(h.messages[1], cut) {
		t.Errorf("a turn that was not cut began with:\n%s", h.messages[1])
	}
	if end.Result.Rounds[0].Stop != api.StopEnded || end.Result.Rounds[0].Steps != 1 {
		t.Errorf("the round that ended: %+v", end.Result.Rounds[0])
	}
}
