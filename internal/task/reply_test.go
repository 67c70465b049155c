package task_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/task"
	"hortus.dev/internal/task/repo"
	"hortus.dev/test/agenttest"
)

// owners is a set of workspaces whose tasks end at once.
type owners struct {
	postman
	mu   sync.Mutex
	of   map[api.WorkspaceID]api.TaskID
	jobs []repo.Job
	end  repo.End
}

func (o *owners) Adopt(_ context.Context, id api.WorkspaceID, from, to api.TaskID) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.of[id] == "" {
		return api.Errorf(api.KindNotFound, "no workspace %s", id)
	}
	if o.of[id] != from {
		return api.Errorf(api.KindConflict, "it belongs to %s", o.of[id])
	}
	o.of[id] = to
	return nil
}

func (o *owners) Run(_ context.Context, job repo.Job) repo.End {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.jobs = append(o.jobs, job)
	return o.end
}

func question(ws api.WorkspaceID) api.Task {
	return api.Task{ID: api.NewTaskID(), State: api.TaskDone, Outcome: api.OutcomeNeedsHuman, Account: "a", Question: "Which one?",
		Create: api.CreateTask{Request: "Fix it", Model: "offline", Repo: &api.RepoTask{URL: "/r", Author: api.Identity{Name: "A", Email: "a@b"}}},
		Repo:   &api.RepoResult{Commit: "c", Workspace: ws}}
}

func TestReplyContinuesInTheSameWorkspace(t *testing.T) {
	o := &owners{of: map[api.WorkspaceID]api.TaskID{}, end: repo.End{Outcome: api.OutcomeNeedsHuman, Question: "And now?"}}
	var checked []string // the accounts whose sandboxes were checked
	e, mem, _ := newEngine(t, func(c *task.Config) {
		c.Repositories = o
		c.Check = func(_ context.Context, req api.CreateSandbox) error {
			checked = append(checked, req.Account)
			return nil
		}
	})
	ws := api.NewWorkspaceID()
	old := question(ws)
	o.of[ws], o.end.Result = old.ID, api.RepoResult{Commit: "c", Workspace: ws, Rounds: []api.Round{{N: 1}}}
	if err := mem.InsertTask(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	reply := func(id api.TaskID, req api.ReplyTask) api.Task {
		t.Helper()
		made, err := e.Reply(t.Context(), id, "key", req)
		if err != nil {
			t.Fatal(err)
		}
		got, err := e.Wait(t.Context(), made.ID)
		if err != nil {
			t.Fatal(err)
		}
		mem.oneFinish(t, got.ID)
		return got
	}
	first := reply(old.ID, api.ReplyTask{Reply: "The left one.", Rounds: 3, TestsMayChange: true, Budget: api.Budget{Steps: 7}})
	if len(checked) != 1 || checked[0] != old.Account {
		t.Errorf("the sandbox was checked for the accounts %q", checked)
	}
	r := first.Create.Repo
	if first.Continues != old.ID || first.Reply != "The left one." || first.Account != "a" || first.Key != "key" || r.Rounds != 3 || !r.TestsMayChange || r.Budget.Steps != 7 || o.of[ws] != first.ID {
		t.Errorf("%+v, owner %s", first, o.of[ws])
	}
	second := reply(first.ID, api.ReplyTask{Reply: "The other one."})
	if jobs := o.jobs[1].Earlier; len(jobs) != 2 || jobs[0].Task.ID != old.ID || jobs[1].Task.ID != first.ID || second.Create.Repo.Rounds != 3 {
		t.Errorf("%+v", jobs)
	}
	if was, err := mem.Task(t.Context(), old.ID); err != nil || was.Outcome != old.Outcome || was.Question != old.Question || was.Reply != "" {
		t.Errorf("the old row: %+v, %v", was, err)
	}
	if _, err := e.Reply(t.Context(), old.ID, "", api.ReplyTask{Reply: "Once more."}); api.KindOf(err) != api.KindConflict {
		t.Errorf("a second reply to the same question: %v", err)
	}
	// A task that ends before its agent begins leaves the question open.
	o.end = repo.End{Outcome: api.OutcomeFailed, Error: api.Errorf(api.KindUnavailable, "no fetch")}
	reply(second.ID, api.ReplyTask{Reply: "Go on."})
	if o.of[ws] != second.ID {
		t.Errorf("the workspace belongs to %s, not to %s", o.of[ws], second.ID)
	}
}

func TestReplyRefused(t *testing.T) {
	o := &owners{of: map[api.WorkspaceID]api.TaskID{}}
	e, mem, _ := newEngine(t, func(c *task.Config) { c.Repositories = o })
	for _, c := range []struct {
		name string
		edit func(*api.Task)
		req  api.ReplyTask
		kind api.Kind
		says string
	}{
		{"running", func(t *api.Task) { t.State, t.Outcome = api.TaskRunning, "" }, api.ReplyTask{}, api.KindConflict, "still running"},
		{"verified", func(t *api.Task) { t.Outcome = api.OutcomeVerified }, api.ReplyTask{}, api.KindConflict, "ended as verified"},
		{"canceled", func(t *api.Task) { t.Outcome = api.OutcomeCanceled }, api.ReplyTask{}, api.KindConflict, "no open question"},
		{"a given program", func(t *api.Task) { t.Create.Request, t.Create.Repo = "", nil }, api.ReplyTask{}, api.KindConflict, "without a model"},
		{"no workspace", func(t *api.Task) { t.Repo.Workspace = "" }, api.ReplyTask{}, api.KindConflict, "no workspace to continue"},
		{"workspace removed", nil, api.ReplyTask{}, api.KindNotFound, "was removed"},
		{"lost environment", func(t *api.Task) { t.EnvNames = []string{"A"} }, api.ReplyTask{}, api.KindConflict, "cannot decrypt"},
		{"blank", nil, api.ReplyTask{Reply: " \n"}, api.KindInvalid, "is empty"},
		{"long", nil, api.ReplyTask{Reply: strings.Repeat("x", task.MaxRequest+1)}, api.KindInvalid, "at most"},
		{"attempts on a repository", nil, api.ReplyTask{Attempts: 2}, api.KindInvalid, "attempts are for programs"},
		{"bad rounds", nil, api.ReplyTask{Rounds: 99}, api.KindInvalid, "rounds is 99"},
	} {
		old := question(api.NewWorkspaceID())
		if c.edit != nil {
			c.edit(&old)
		}
		if err := mem.InsertTask(t.Context(), old); err != nil {
			t.Fatal(err)
		}
		if c.req.Reply == "" {
			c.req.Reply = "yes"
		}
		_, err := e.Reply(t.Context(), old.ID, "", c.req)
		if api.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.says) || c.kind == api.KindConflict && api.AsError(err).Hint == "" {
			t.Errorf("%s: %v, want %s %q", c.name, err, c.kind, c.says)
		}
	}
}

// The reply to a question about a program goes to the Debugger with the last attempt.
func TestReplyToARun(t *testing.T) {
	plan := api.ExecutionPlan{Language: api.Python, Shell: "sh", Task: "print a colour", Output: api.OutputText}
	m := &asked{answers: answers{name: "asked", list: []any{
		plan, *script("raise SystemExit(1)"), api.Diagnosis{Category: api.CategoryUnknown, Cause: "no colour is named", Question: "Which colour?"},
		api.Diagnosis{Category: api.CategoryUnknown, Cause: "it is red", Artifact: script("print('red')")},
	}}}
	e := engineWith(t, newMemory(), agenttest.NewLocaldir(t), []model.Model{m})
	old := done(t, e, api.CreateTask{Request: "print my colour", Model: "asked"})
	if old.Outcome != api.OutcomeNeedsHuman || old.Question != "Which colour?" {
		t.Fatalf("%+v", old)
	}
	if _, err := e.Reply(t.Context(), old.ID, "", api.ReplyTask{Reply: "red", Rounds: 2}); api.KindOf(err) != api.KindInvalid {
		t.Errorf("rounds of a run: %v", err)
	}
	made, err := e.Reply(t.Context(), old.ID, "", api.ReplyTask{Reply: "Red."})
	if err != nil {
		t.Fatal(err)
	}
	got, err := e.Wait(t.Context(), made.ID)
	if err != nil || got.Outcome != api.OutcomeVerified || got.Continues != old.ID || len(got.Attempts) != 1 || got.Plan == nil {
		t.Fatalf("%+v, %v", got, err)
	}
	last := m.said[len(m.said)-1]
	for _, want := range []string{`"question":"Which colour?"`, `"reply":"Red."`, "raise SystemExit(1)"} {
		if !strings.Contains(last, want) {
			t.Errorf("the Debugger did not get %s: %s", want, last)
		}
	}
}

// TestWhoseCalls: a call of a model knows the account and the task that it is for; a secret with the
// model's key records them.
func TestWhoseCalls(t *testing.T) {
	plan := api.ExecutionPlan{Language: api.Python, Shell: "sh", Task: "print a colour", Output: api.OutputText}
	m := &asked{answers: answers{name: "asked", list: []any{plan, *script("print('red')")}}}
	e := engineWith(t, newMemory(), agenttest.NewLocaldir(t), []model.Model{m})
	row, err := e.Create(api.WithPrincipal(t.Context(), api.Principal{Account: "ada", Role: api.RoleUser}), api.CreateTask{Request: "print my colour", Model: "asked"})
	if err != nil {
		t.Fatal(err)
	}
	if row, err = e.Wait(t.Context(), row.ID); err != nil || row.Outcome != api.OutcomeVerified {
		t.Fatalf("%+v, %v", row, err)
	}
	if want := "ada/" + string(row.ID); !slices.Equal(m.of, []string{want, want}) {
		t.Errorf("calls of %q, want %s", m.of, want)
	}
}

// asked keeps what it was asked.
type asked struct {
	answers
	said []string
	of   []string // whose calls they were
}

func (a *asked) Generate(ctx context.Context, req model.Request, deltas func(model.Delta)) (model.Response, error) {
	var all strings.Builder
	for _, m := range req.Messages {
		all.WriteString(m.Text)
	}
	a.said = append(a.said, all.String())
	a.of = append(a.of, api.PrincipalOf(ctx).Account+"/"+string(api.TaskOf(ctx)))
	return a.answers.Generate(ctx, req, deltas)
}
