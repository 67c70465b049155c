package loop_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/agent/loop"
	"hortus.dev/internal/agent/model"
)

// priced is a model whose answers cost tokens, under a name.
type priced struct {
	answers
	name   string
	tokens int64
	err    error
}

func (p *priced) Name() string { return p.name }

func (p *priced) Generate(ctx context.Context, req model.Request, deltas func(model.Delta)) (model.Response, error) {
	resp, err := p.answers.Generate(ctx, req, deltas)
	resp.Usage.InputTokens = p.tokens
	if p.err != nil {
		return model.Response{}, p.err
	}
	return resp, err
}

func question(id, text string) model.Message {
	in, _ := json.Marshal(map[string]string{"question": text})
	return model.Message{Calls: []model.Call{{ID: id, Name: "research", Input: in}}}
}

func found(text string) model.Message {
	in, _ := json.Marshal(map[string]string{"summary": text})
	return model.Message{Calls: []model.Call{{ID: "found", Name: "finish", Input: in}}}
}

// reading is the first tool of a crowd, for a sub-agent.
func reading(c *crowd) *loop.Research {
	return &loop.Research{Tools: c.tools()[:1], Reads: []string{"view"}}
}

// A question goes to the small model, with tools that read and a history of its own; its answer is all that the agent
// reads. What it used counts, and its transcript is a part of the agent's.
func TestResearch(t *testing.T) {
	c := &crowd{}
	main := &priced{name: "main", tokens: 100, answers: answers{all: []model.Message{question("q1", "Where is it?"), ask("shell make"), question("q2", "And that?")}}}
	small := &priced{name: "small", tokens: 10, answers: answers{all: []model.Message{ask("view a", "view b"), found("It is in a:1."), ask("shell make"), found("In b:2.")}}}
	w := newWork(main, func(cfg *loop.Config, _ *bench) { cfg.Tools, cfg.Small, cfg.Research = c.tools(), small, reading(c) })
	rep := w.Run(t.Context(), "Go.")
	if rep.Stop != api.StopFinished || rep.Steps != 4 {
		t.Fatalf("%+v", rep)
	}
	if want := (api.Usage{Requests: 8, InputTokens: 440}); rep.Usage != want || w.Usage() != want {
		t.Errorf("%+v, %+v", rep.Usage, w.Usage())
	}
	last := main.asked[len(main.asked)-1]
	var results []string
	for _, m := range last.Messages {
		if m.Role == model.RoleTool {
			results = append(results, m.Text)
		}
		if strings.Contains(m.Text, "view of a") {
			t.Errorf("the agent reads what the sub-agent read: %q", m.Text)
		}
	}
	if !slices.Equal(results, []string{"It is in a:1.", "shell of make", "In b:2."}) {
		t.Errorf("%q", results)
	}
	// The sub-agent has no tool that changes anything, and begins each question anew.
	if n := len(small.asked[0].Tools); n != 2 || !strings.Contains(small.asked[3].Messages[2].Text, `There is no tool "shell"`) || len(small.asked[2].Messages) != 1 {
		t.Errorf("%d tools, %+v", n, small.asked[3].Messages)
	}
	if small.asked[0].Messages[0].Text != "Question:\nWhere is it?" {
		t.Errorf("%q", small.asked[0].Messages[0].Text)
	}
	agents := map[string]int{}
	for _, e := range w.entries(t) {
		agents[e.Agent]++
	}
	if agents["research 1"] != 8 || agents["research 2"] != 7 || agents[""] == 0 {
		t.Errorf("entries of %v", agents)
	}
	tools := map[string]int{}
	for _, e := range of[api.ToolEvent](w.facts) {
		tools[e.Agent]++
	}
	if tools["research 1"] != 3 || tools["research 2"] != 2 || tools[""] != 4 {
		t.Errorf("events of %v", tools)
	}
	roles := map[string]int{}
	for _, e := range of[api.ModelEvent](w.facts) {
		roles[e.Role+" "+e.Model]++
	}
	if roles["agent main"] != 4 || roles["research small"] != 4 {
		t.Errorf("%v", roles)
	}
	calls, err := loop.Calls(bytes.NewReader(w.script.Bytes()))
	if err != nil || strings.Contains(calls, "view") || !strings.Contains(calls, "- research Where is it?") {
		t.Errorf("%s, %v", calls, err)
	}
}

// Without a small model the agent's own answers; and without research there is no such tool.
func TestResearchOfOne(t *testing.T) {
	c := &crowd{}
	m := &answers{all: []model.Message{question("q1", "Where?"), found("Here.")}}
	w := newWork(m, func(cfg *loop.Config, _ *bench) { cfg.Tools, cfg.Research = c.tools(), reading(c) })
	if rep := w.Run(t.Context(), "Go."); rep.Stop != api.StopFinished || m.asked[2].Messages[2].Text != "Here." {
		t.Errorf("%+v", rep)
	}
	m = &answers{all: []model.Message{question("q1", "Where?")}}
	w = newWork(m, func(cfg *loop.Config, _ *bench) { cfg.Tools = c.tools() })
	if w.Run(t.Context(), "Go."); !strings.Contains(m.asked[1].Messages[2].Text, `There is no tool "research"`) {
		t.Errorf("%+v", m.asked[1].Messages)
	}
}

// What a question uses is bounded, and counts against the task's budget; a failure of the small model is the answer to
// the call, and no end.
func TestResearchBounds(t *testing.T) {
	c := &crowd{}
	run := func(small *priced, budget api.Budget, questions int) (*work, loop.Report, *answers) {
		var all []model.Message
		for i := range questions {
			all = append(all, question(fmt.Sprint("q", i), fmt.Sprint("Where is ", i, "?")))
		}
		m := &answers{all: all}
		w := newWork(m, func(cfg *loop.Config, _ *bench) {
			cfg.Tools, cfg.Small, cfg.Research, cfg.Budget = c.tools(), small, reading(c), budget
		})
		return w, w.Run(t.Context(), "Go."), m
	}
	result := func(m *answers) string { return m.asked[1].Messages[2].Text }
	endless := func() (all []model.Message) {
		for i := range 60 {
			all = append(all, ask(fmt.Sprint("view n", i)))
		}
		return all
	}
	_, rep, m := run(&priced{name: "small", tokens: 10, answers: answers{all: endless()}}, api.Budget{}, 1)
	if rep.Stop != api.StopFinished || rep.Usage.Requests != 2+25 || !strings.Contains(result(m), "stopped without an answer: step_budget") {
		t.Errorf("%+v, %q", rep, result(m))
	}
	// A quarter of 40,000 is 10,000, which five answers of 2,000 reach.
	_, rep, m = run(&priced{name: "small", tokens: 2000, answers: answers{all: endless()}}, api.Budget{Tokens: 40_000}, 1)
	if rep.Stop != api.StopFinished || rep.Usage.InputTokens != 10_000 || !strings.Contains(result(m), "token_budget") {
		t.Errorf("%+v, %q", rep, result(m))
	}
	// One answer of all that the task has.
	_, rep, _ = run(&priced{name: "small", tokens: 50_000, answers: answers{all: endless()}}, api.Budget{Tokens: 40_000}, 2)
	if rep.Stop != api.StopTokens || rep.Steps != 1 {
		t.Errorf("%+v", rep)
	}
	_, rep, m = run(&priced{name: "small", err: api.Errorf(api.KindUnavailable, "the server is down")}, api.Budget{}, 1)
	if rep.Stop != api.StopFinished || !strings.Contains(result(m), "model_failed. the server is down") {
		t.Errorf("%+v, %q", rep, result(m))
	}
	_, rep, m = run(&priced{name: "small"}, api.Budget{}, 22)
	if text := m.asked[21].Messages[42].Text; rep.Stop != api.StopFinished || !strings.Contains(text, "maximum of 20 questions") {
		t.Errorf("%+v, %q", rep.Stop, text)
	}
	_, rep, m = run(&priced{name: "small"}, api.Budget{Tokens: 3000}, 1)
	if rep.Stop != api.StopFinished || !strings.Contains(result(m), "too small for research") {
		t.Errorf("%+v, %q", rep, result(m))
	}
}

// A cancellation reaches the tools of the sub-agent, and nothing is left.
func TestCancelResearch(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := &crowd{view: func(ctx context.Context, path string) error {
		if path == "b" {
			cancel()
		}
		<-ctx.Done()
		return ctx.Err()
	}}
	m := &answers{all: []model.Message{question("q1", "Where?"), ask("view a", "view b")}}
	w := newWork(m, func(cfg *loop.Config, _ *bench) { cfg.Tools, cfg.Research = c.tools(), reading(c) })
	rep := w.Run(ctx, "Go.")
	if rep.Stop != api.StopCanceled || !slices.Equal(rep.Skipped, []string{"research Where? (stopped)"}) || len(rep.Completed) != 0 || rep.Usage.Requests != 2 {
		t.Errorf("%+v", rep)
	}
	w.entries(t)
	quiet(t)
}

// A sandbox that ends under the sub-agent ends the work.
func TestResearchSandbox(t *testing.T) {
	c := &crowd{view: func(context.Context, string) error { return api.Errorf(api.KindUnavailable, "the sandbox ended") }}
	m := &answers{all: []model.Message{question("q1", "Where?"), ask("view a")}}
	w := newWork(m, func(cfg *loop.Config, _ *bench) { cfg.Tools, cfg.Research = c.tools(), reading(c) })
	if rep := w.Run(t.Context(), "Go."); rep.Stop != api.StopSandbox || !strings.Contains(rep.Why, "the sandbox ended") {
		t.Errorf("%+v", rep)
	}
}

// The small model writes the summary; where it fails the loop's own does.
func TestSmallSummary(t *testing.T) {
	for _, fails := range []bool{false, true} {
		t.Run(fmt.Sprint("fails ", fails), func(t *testing.T) {
			long := strings.Repeat("words and words ", 400)
			all := []model.Message{}
			for i := range 8 {
				all = append(all, ask(fmt.Sprint("shell n", i)))
			}
			m := &summarizing{answers: answers{all: all}, summary: "The main model writes this summary, which is long enough."}
			var small model.Model = &named{&summarizing{summary: "The small model writes this summary, which is long enough."}, "small"}
			if fails {
				small = &priced{name: "small", err: api.Errorf(api.KindUnavailable, "down")}
			}
			shell := tool{spec("shell", `"command":{"type":"string"}`, "command"), func(context.Context, json.RawMessage) (loop.Result, error) {
				return loop.Result{Text: long}, nil
			}}
			w := newWork(m, func(cfg *loop.Config, _ *bench) {
				cfg.Tools, cfg.Window, cfg.Small = []loop.Tool{shell, (&crowd{}).tools()[2]}, 12_000, small
			})
			if rep := w.Run(t.Context(), "Go."); rep.Stop != api.StopFinished || rep.Model != "answers" {
				t.Fatalf("%+v", rep)
			}
			who := map[bool]string{false: "The small model writes", true: "The main model writes"}[fails]
			if first := m.asked[len(m.asked)-1].Messages[1].Text; !strings.Contains(first, who) {
				t.Errorf("%.200q", first)
			}
		})
	}
}
