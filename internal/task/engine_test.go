package task_test

import (
	"context"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/task"
)

func script(src string) *api.CodeArtifact {
	return &api.CodeArtifact{Language: api.Python, Files: []api.File{{Path: "main.py", Content: src}}, Run: "python3 main.py", Output: api.OutputText}
}

// done creates a task and waits for its end.
func done(t *testing.T, e *task.Engine, req api.CreateTask) api.Task {
	t.Helper()
	created, err := e.Create(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if created.State != api.TaskPending || created.Owner == "" {
		t.Errorf("created %+v", created)
	}
	got, err := e.Wait(t.Context(), created.ID)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestASentenceBecomesAVerifiedProgram(t *testing.T) {
	e, mem, _ := newEngine(t)
	got := done(t, e, api.CreateTask{Request: "Write a Python script that computes the mean and median of a list of numbers"})
	if got.State != api.TaskDone || got.Outcome != api.OutcomeVerified || got.Plan == nil || len(got.Attempts) != 1 || got.Model != "offline" || got.EndedAt.IsZero() {
		t.Fatalf("%+v", got)
	}
	mem.oneFinish(t, got.ID)
	kinds := map[api.EventType]int{}
	for i, ev := range mem.of(got.ID) {
		kinds[ev.Type]++
		if i == 0 && ev.Type != api.EventTaskCreated || i == 1 && ev.Type != api.EventTaskStarted {
			t.Errorf("event %d is %s", i, ev.Type)
		}
	}
	for _, k := range []api.EventType{api.EventPlan, api.EventCode, api.EventAttempt, api.EventPhase, api.EventOutput, api.EventResult, api.EventModel} {
		if kinds[k] == 0 {
			t.Errorf("no %s event", k)
		}
	}
	out, err := e.Output(t.Context(), got.ID, 1, "stdout")
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if b, err := io.ReadAll(out); err != nil || !strings.Contains(string(b), "median: 13") {
		t.Errorf("%q %v", b, err)
	}
	if _, err := e.Output(t.Context(), got.ID, 2, "stdout"); api.KindOf(err) != api.KindNotFound {
		t.Error(err)
	}
	if _, err := e.Output(t.Context(), got.ID, 1, "../stdout"); api.KindOf(err) != api.KindInvalid {
		t.Error(err)
	}
	if e.Running() != 0 {
		t.Errorf("%d running", e.Running())
	}
}

func TestOutcomes(t *testing.T) {
	e, mem, _ := newEngine(t)
	for _, c := range []struct {
		name    string
		req     api.CreateTask
		outcome api.Outcome
		passes  int
	}{
		{"repaired", api.CreateTask{Request: "Run this Python: print(math.pi)"}, api.OutcomeVerified, 2},
		{"exhausted", api.CreateTask{Request: "Run this Python: print(math.pi)", Attempts: 1}, api.OutcomeNeedsHuman, 1},
		{"declined", api.CreateTask{Request: "launch a rocket"}, api.OutcomeDeclined, 0},
		{"artifact", api.CreateTask{Artifact: script("print('x')")}, api.OutcomeVerified, 1},
		{"artifact that fails", api.CreateTask{Artifact: script("raise SystemExit(2)")}, api.OutcomeNeedsHuman, 1},
		{"timeout", api.CreateTask{Artifact: script("import time; time.sleep(60)"), RunTimeoutMS: 300}, api.OutcomeNeedsHuman, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := done(t, e, c.req)
			if got.Outcome != c.outcome || len(got.Attempts) != c.passes {
				t.Fatalf("%+v", got)
			}
			if c.outcome == api.OutcomeNeedsHuman && (got.Diagnosis == "" || got.Question == "") {
				t.Errorf("no diagnosis or question: %+v", got)
			}
			if c.outcome == api.OutcomeDeclined && (got.Error == nil || got.Error.Hint == "") {
				t.Errorf("no next step: %+v", got)
			}
			mem.oneFinish(t, got.ID)
		})
	}
}

func TestCreateRefuses(t *testing.T) {
	e, mem, _ := newEngine(t)
	for name, req := range map[string]api.CreateTask{
		"nothing":              {},
		"two":                  {Request: "x", Artifact: script("x")},
		"blank":                {Request: " \n"},
		"NUL":                  {Request: "a\x00b"},
		"invalid UTF-8":        {Request: "a\xff"},
		"too long":             {Request: strings.Repeat("x", task.MaxRequest+1)},
		"unknown model":        {Request: "x", Model: "oracle"},
		"model for artifact":   {Artifact: script("x"), Model: "offline"},
		"attempts":             {Request: "x", Attempts: 11},
		"negative attempts":    {Request: "x", Attempts: -1},
		"attempts of artifact": {Artifact: script("x"), Attempts: 2},
		"negative timeout":     {Request: "x", RunTimeoutMS: -1},
		"huge timeout":         {Request: "x", InstallTimeoutMS: 1 << 50},
		"sandbox task":         {Request: "x", Sandbox: api.CreateSandbox{Task: api.NewTaskID()}},
		"bad artifact":         {Artifact: &api.CodeArtifact{Language: "cobol"}},
		"bad replay":           {Replay: &api.Replay{Task: "x", Attempt: 1}},
		"replay with a limit":  {Replay: &api.Replay{Task: api.NewTaskID(), Attempt: 1}, RunTimeoutMS: 5},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := e.Create(t.Context(), req); api.KindOf(err) != api.KindInvalid {
				t.Errorf("kind %q: %v", api.KindOf(err), err)
			}
		})
	}
	if _, err := e.Create(t.Context(), api.CreateTask{Replay: &api.Replay{Task: api.NewTaskID(), Attempt: 1}}); api.KindOf(err) != api.KindNotFound {
		t.Error(err)
	}
	if len(mem.tasks) != 0 {
		t.Errorf("%d refused tasks were stored", len(mem.tasks))
	}
}

// TestReplayWithoutItsEnvironment: a replay whose variables have lost their values is
// refused; it would run another program.
func TestReplayWithoutItsEnvironment(t *testing.T) {
	e, mem, _ := newEngine(t)
	first := done(t, e, api.CreateTask{Request: "Run this Python: print(1)", Sandbox: api.CreateSandbox{Env: map[string]string{"A": "b"}}})
	replay := api.CreateTask{Replay: &api.Replay{Task: first.ID, Attempt: 1}}
	done(t, e, replay) // the control
	lost, err := mem.Task(t.Context(), first.ID)
	if err != nil {
		t.Fatal(err)
	}
	lost.Env = nil
	mem.mu.Lock()
	mem.tasks[first.ID] = lost
	mem.mu.Unlock()
	if _, err := e.Create(t.Context(), replay); api.KindOf(err) != api.KindConflict || !strings.Contains(api.HintOf(err), "hortus.db-key") {
		t.Errorf("%v (%s)", err, api.HintOf(err))
	}
}

func TestReplayIsExact(t *testing.T) {
	e, _, sandboxes := newEngine(t)
	limits := api.Limits{MemoryBytes: 64 << 20}
	first := done(t, e, api.CreateTask{Request: "Run this Python: print(math.pi)", RunTimeoutMS: 7000,
		Sandbox: api.CreateSandbox{Limits: limits, Env: map[string]string{"A": "b"}}})
	for n, want := range map[int]api.Outcome{1: api.OutcomeNeedsHuman, 2: api.OutcomeVerified} {
		again := done(t, e, api.CreateTask{Replay: &api.Replay{Task: first.ID, Attempt: n}})
		if again.Outcome != want || len(again.Attempts) != 1 {
			t.Fatalf("attempt %d: %+v", n, again)
		}
		if a, b := again.Attempts[0].Artifact, first.Attempts[n-1].Artifact; a.Files[0] != b.Files[0] || a.Run != b.Run || a.Note != b.Note {
			t.Errorf("attempt %d: the artifact is another", n)
		}
		if again.Create.RunTimeoutMS != 7000 || again.Create.Sandbox.Limits != limits {
			t.Errorf("attempt %d: %+v", n, again.Create)
		}
		if got := sandboxes.Asked()[len(sandboxes.Asked())-1]; got.Env["A"] != "b" || got.Task != again.ID || got.Limits != limits {
			t.Errorf("attempt %d ran in %+v", n, got)
		}
	}
	if _, err := e.Create(t.Context(), api.CreateTask{Replay: &api.Replay{Task: first.ID, Attempt: 3}}); api.KindOf(err) != api.KindNotFound {
		t.Error(err)
	}
}

// At whatever event a task is canceled, it ends once, with nothing left. The
// localdir fails the test when a sandbox stays open.
func TestCancelAtAnyInstant(t *testing.T) {
	e, mem, _ := newEngine(t)
	rng := rand.New(rand.NewPCG(1, 2))
	outcomes := map[api.Outcome]int{}
	for range 50 {
		req := api.CreateTask{Request: "Run this:\n```python\nimport time\nprint('a', flush=True)\ntime.sleep(0.02)\nprint(math.pi)\n```"}
		created, err := e.Create(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		mem.until(t, created.ID, rng.IntN(26))
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				got, err := e.Cancel(context.Background(), created.ID)
				if err != nil || got.State != api.TaskDone {
					t.Errorf("%+v %v", got, err)
				}
			})
		}
		wg.Wait()
		got, err := e.Wait(t.Context(), created.ID)
		if err != nil {
			t.Fatal(err)
		}
		outcomes[got.Outcome]++
		if got.Outcome == api.OutcomeCanceled && (got.Receipt == nil || got.Receipt.ProcessesLeft != 0) {
			t.Errorf("receipt %+v", got.Receipt)
		}
		if got.Outcome == api.OutcomeFailed {
			t.Errorf("failed: %+v", got.Error)
		}
		mem.oneFinish(t, created.ID)
	}
	t.Logf("outcomes %v", outcomes)
	if outcomes[api.OutcomeCanceled] == 0 {
		t.Error("no task was canceled")
	}
	if e.Running() != 0 {
		t.Errorf("%d running", e.Running())
	}
}

func TestCloseCancelsAll(t *testing.T) {
	e, mem, sandboxes := newEngine(t)
	var ids []api.TaskID
	for range 3 {
		c, err := e.Create(t.Context(), api.CreateTask{Artifact: script("import time; time.sleep(60)")})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, c.ID)
	}
	if err := e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		if got, err := mem.Task(t.Context(), id); err != nil || got.Outcome != api.OutcomeCanceled {
			t.Errorf("%+v %v", got, err)
		}
		mem.oneFinish(t, id)
	}
	if sandboxes.Left.Load() != 0 {
		t.Error("a sandbox was left")
	}
	if _, err := e.Create(t.Context(), api.CreateTask{Request: "x"}); api.KindOf(err) != api.KindUnavailable {
		t.Error(err)
	}
}

func TestRecoverEndsOnlyWhatIsProvablyGone(t *testing.T) {
	e, mem, _ := newEngine(t)
	gone, alive := api.NewOwnerID(), api.NewOwnerID()
	lost := api.Task{ID: api.NewTaskID(), State: api.TaskRunning, Owner: gone}
	other := api.Task{ID: api.NewTaskID(), State: api.TaskRunning, Owner: alive}
	over := api.Task{ID: api.NewTaskID(), State: api.TaskDone, Outcome: api.OutcomeVerified, Owner: gone}
	for _, x := range []api.Task{lost, other, over} {
		if err := mem.InsertTask(t.Context(), x); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []int{1, 0} {
		n, err := e.Recover(t.Context(), func(o api.OwnerID) bool { return o == gone })
		if err != nil || n != want {
			t.Fatalf("round %d: %d, %v", i, n, err)
		}
	}
	if got, _ := mem.Task(t.Context(), lost.ID); got.State != api.TaskDone || got.Outcome != api.OutcomeLost || got.Error == nil {
		t.Errorf("%+v", got)
	}
	mem.oneFinish(t, lost.ID)
	if got, _ := mem.Task(t.Context(), other.ID); got.State != api.TaskRunning || len(mem.of(other.ID)) != 0 {
		t.Errorf("a living owner's task was touched: %+v", got)
	}
	if got, _ := mem.Task(t.Context(), over.ID); got.Outcome != api.OutcomeVerified {
		t.Errorf("%+v", got)
	}
	if _, err := e.Cancel(t.Context(), other.ID); api.KindOf(err) != api.KindConflict {
		t.Error(err)
	}
}

// TestAdviceInTheDiagnosis: a task that ends for want of a command has the advice in its diagnosis; a verified one has none.
func TestAdviceInTheDiagnosis(t *testing.T) {
	e, _, _ := newEngine(t, func(cfg *task.Config) {
		cfg.Advise = func(context.Context, api.Task) string { return "Install it." }
	})
	got := done(t, e, api.CreateTask{Request: "Run this Bash: no_such_command --help"})
	if got.Outcome != api.OutcomeNeedsHuman || !strings.HasSuffix(got.Diagnosis, ". Install it.") {
		t.Errorf("%s: %q %v", got.Outcome, got.Diagnosis, got.Error)
	}
	if got := done(t, e, api.CreateTask{Artifact: script("print(1)")}); got.Outcome != api.OutcomeVerified || got.Diagnosis != "" {
		t.Errorf("%s: %q", got.Outcome, got.Diagnosis)
	}
}
