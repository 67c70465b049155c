package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent"
	"hortus.dev/internal/agent/model"
	"hortus.dev/test/agenttest"
)

// events keeps what was emitted.
type events struct {
	mu  sync.Mutex
	all []event
}

type event struct {
	kind api.EventType
	data any
}

func (e *events) Emit(_ context.Context, t api.EventType, data any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, event{t, data})
}

func (e *events) count(t api.EventType) (n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, x := range e.all {
		if x.kind == t {
			n++
		}
	}
	return n
}

// scripted answers with what it was given, in order, and keeps the requests.
type scripted struct {
	answers []string
	err     error
	reqs    []model.Request
}

func (s *scripted) Name() string { return "scripted" }

func (s *scripted) Generate(_ context.Context, req model.Request, _ func(model.Delta)) (model.Response, error) {
	s.reqs = append(s.reqs, req)
	if s.err != nil {
		return model.Response{}, s.err
	}
	if len(s.answers) == 0 {
		return model.Response{}, errors.New("no answer left")
	}
	a := s.answers[0]
	s.answers = s.answers[1:]
	return model.Response{Message: model.Message{Role: model.RoleAssistant, Text: a}, Usage: api.Usage{Requests: 1, InputTokens: 10}}, nil
}

const goodPlan = `{"language":"python","shell":"bash","task":"print a number","output":"text","parameters":{"n":"7"}}`

func asJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func program(src string) api.CodeArtifact {
	return api.CodeArtifact{Language: api.Python, Files: []api.File{{Path: "main.py", Content: src}}, Run: "python3 main.py", Shell: "bash", Output: api.OutputText}
}

func TestPlannerFeedsMalformedAnswersBack(t *testing.T) {
	for _, c := range []struct {
		name    string
		answers []string
		calls   int
		kind    api.Kind
	}{
		{"good at once", []string{goodPlan}, 1, ""},
		{"prose, then good", []string{"Sure! Here it is", goodPlan}, 2, ""},
		{"unknown field, then good", []string{`{"language":"python","shell":"bash","task":"x","output":"text","mood":"good"}`, goodPlan}, 2, ""},
		{"unknown language three times", []string{`{"language":"cobol"}`, `{"language":"cobol"}`, `{"language":"cobol"}`, goodPlan}, 3, api.KindInvalid},
		{"two values", []string{goodPlan + goodPlan, goodPlan}, 2, ""},
		{"a path that leaves", []string{`{"language":"python","shell":"bash","task":"x","output":"file","files":["../x"]}`, goodPlan}, 2, ""},
		{"the request itself", []string{`{"language":"python","shell":"bash","task":"please print the number seven","output":"text","parameters":{"n":"7"}}`}, 1, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, ev := &scripted{answers: c.answers}, &events{}
			plan, used, err := agent.NewPlanner(m, ev).Plan(t.Context(), api.PlanRequest{Sentence: "please print the number seven"})
			if api.KindOf(err) != c.kind {
				t.Fatalf("kind %q, want %q: %v", api.KindOf(err), c.kind, err)
			}
			if err == nil && plan.Parameters["n"] != "7" {
				t.Errorf("plan %+v", plan)
			}
			if len(m.reqs) != c.calls || used.Requests != c.calls || ev.count(api.EventModel) != c.calls {
				t.Errorf("%d calls, usage %d, %d events; want %d", len(m.reqs), used.Requests, ev.count(api.EventModel), c.calls)
			}
			if c.calls > 1 && !strings.Contains(m.reqs[1].Messages[2].Text, "Your answer is invalid") {
				t.Error("the correction does not say what was wrong")
			}
			if m.reqs[0].Output.Name != "ExecutionPlan" || !json.Valid(m.reqs[0].Output.Schema) || len(m.reqs[0].Messages) != 1 {
				t.Errorf("request %+v", m.reqs[0])
			}
		})
	}
}

func TestCoderRefusesHostileAnswers(t *testing.T) {
	plan := api.ExecutionPlan{Language: api.Python, Shell: "bash", Task: "x", Output: api.OutputText}
	good := program("print(1)")
	for name, edit := range map[string]func(a *api.CodeArtifact){
		"absolute path":    func(a *api.CodeArtifact) { a.Files[0].Path = "/etc/passwd" },
		"parent path":      func(a *api.CodeArtifact) { a.Files[0].Path = "a/../../b" },
		"NUL in path":      func(a *api.CodeArtifact) { a.Files[0].Path = "a\x00b" },
		"newline in path":  func(a *api.CodeArtifact) { a.Files[0].Path = "a\nb" },
		"no files":         func(a *api.CodeArtifact) { a.Files = nil },
		"twice":            func(a *api.CodeArtifact) { a.Files = append(a.Files, a.Files[0]) },
		"file and folder":  func(a *api.CodeArtifact) { a.Files = append(a.Files, api.File{Path: "main.py/x"}) },
		"too large":        func(a *api.CodeArtifact) { a.Files[0].Content = strings.Repeat("x", 1<<20+1) },
		"no run":           func(a *api.CodeArtifact) { a.Run = " " },
		"shell":            func(a *api.CodeArtifact) { a.Shell = "/bin/evil" },
		"weaker output":    func(a *api.CodeArtifact) { a.Output = api.OutputNone },
		"unknown output":   func(a *api.CodeArtifact) { a.Output = "song" },
		"longer timeout":   func(a *api.CodeArtifact) { a.RunTimeoutMS = 31_000 },
		"negative timeout": func(a *api.CodeArtifact) { a.RunTimeoutMS = -1 },
	} {
		t.Run(name, func(t *testing.T) {
			bad := good
			bad.Files = append([]api.File{}, good.Files...)
			edit(&bad)
			m := &scripted{answers: []string{asJSON(t, bad), asJSON(t, good)}}
			a, _, err := agent.NewCoder(m, &events{}, 2*time.Minute, 30*time.Second).Code(t.Context(), plan)
			if err != nil || len(m.reqs) != 2 || a.Files[0].Content != "print(1)" {
				t.Fatalf("%d calls, %+v, %v", len(m.reqs), a, err)
			}
		})
	}
}

// No byte of the sentence that is no parameter may reach the Coder's model.
func TestSentenceNeverReachesTheCoder(t *testing.T) {
	const marker = "xyzzy-marker-7f3a"
	m := &scripted{answers: []string{goodPlan, asJSON(t, program("print(7)"))}}
	rec := newRecord(t)
	p := agent.New(agent.Config{
		Planner: agent.NewPlanner(m, rec), Coder: agent.NewCoder(m, rec, time.Minute, time.Minute),
		Executor: agent.NewExecutor(agent.ExecutorConfig{Sandboxes: agenttest.NewLocaldir(t), Emit: rec}), Emit: rec, Record: rec,
	})
	rep := p.Run(t.Context(), api.PlanRequest{Sentence: "print seven " + marker})
	if rep.Outcome != api.OutcomeVerified {
		t.Fatalf("%+v", rep)
	}
	if !strings.Contains(m.reqs[0].Messages[0].Text, marker) {
		t.Fatal("the Planner did not get the sentence")
	}
	for _, req := range m.reqs[1:] {
		if b := asJSON(t, req); strings.Contains(b, "xyzzy") || strings.Contains(b, "print seven") {
			t.Fatalf("the sentence reached the model of the coder: %s", b)
		}
	}
}

func TestDebuggerThatRepeatsHasNoIdea(t *testing.T) {
	a := program("print(1)")
	again := a
	again.Note = "now surely"
	again.Files = []api.File{{Path: "main.py", Content: "print(1)  \n\n"}}
	m := &scripted{answers: []string{asJSON(t, api.Diagnosis{Category: api.CategoryUnknown, Cause: "bad luck", Artifact: &again})}}
	d, _, err := agent.NewDebugger(m, &events{}, time.Minute, time.Minute).Diagnose(t.Context(), api.DebugRequest{
		Plan: api.ExecutionPlan{Language: api.Python, Shell: "bash", Task: "x", Output: api.OutputText}, Artifact: a})
	if err != nil || d.Artifact != nil || d.Question == "" {
		t.Fatalf("%+v %v", d, err)
	}
}

func TestModelErrorsPassThrough(t *testing.T) {
	m := &scripted{err: api.Errorf(api.KindDeclined, "no").WithHint("do this")}
	ev := &events{}
	_, _, err := agent.NewPlanner(m, ev).Plan(t.Context(), api.PlanRequest{Sentence: "x"})
	if api.KindOf(err) != api.KindDeclined || api.HintOf(err) != "do this" {
		t.Fatal(err)
	}
	if ev.count(api.EventModel) != 1 {
		t.Error("the call was not reported")
	}
}

// stumbling answers like scripted, and tells of a retry before each answer.
type stumbling struct{ scripted }

func (s *stumbling) Generate(ctx context.Context, req model.Request, deltas func(model.Delta)) (model.Response, error) {
	deltas(model.Delta{Retry: &model.Retry{Attempt: 1, Of: 5, Wait: 1500 * time.Millisecond, Err: errors.New("overloaded")}})
	return s.scripted.Generate(ctx, req, deltas)
}

// What is tried again is told: calls that failed, and answers that cannot be used.
func TestRetriesAreEvents(t *testing.T) {
	m, ev := &stumbling{scripted{answers: []string{"no JSON", goodPlan}}}, &events{}
	if _, _, err := agent.NewPlanner(m, ev).Plan(t.Context(), api.PlanRequest{Sentence: "x"}); err != nil {
		t.Fatal(err)
	}
	var got []api.ModelRetryEvent
	for _, e := range ev.all {
		if e.kind == api.EventModelRetry {
			got = append(got, e.data.(api.ModelRetryEvent))
		}
	}
	overloaded := api.ModelRetryEvent{Role: "planner", Model: "scripted", Attempt: 1, Of: 5, WaitMS: 1500, Error: "overloaded"}
	if len(got) != 3 || got[0] != overloaded || got[2] != overloaded {
		t.Fatalf("%+v", got)
	}
	if c := got[1]; c.Attempt != 1 || c.Of != 3 || c.WaitMS != 0 || !strings.Contains(c.Error, "not JSON of the requested schema") {
		t.Errorf("correction %+v", c)
	}
}
