package loop_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
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

// TestResearchInWords: a sub-agent that answers with text and without a call has answered.
func TestResearchInWords(t *testing.T) {
	c := &crowd{}
	main := &priced{name: "main", tokens: 100, answers: answers{all: []model.Message{question("q1", "Where is it?")}}}
	small := &priced{name: "small", tokens: 10, answers: answers{all: []model.Message{{Text: "It is in a:1."}, {Text: "As I said, it is in a:1."}}}}
	w := newWork(main, func(cfg *loop.Config, _ *bench) { cfg.Tools, cfg.Small, cfg.Research = c.tools(), small, reading(c) })
	w.Run(t.Context(), "Go.")
	for _, m := range main.asked[len(main.asked)-1].Messages {
		if m.Role == model.RoleTool && (m.Failed || m.Text != "As I said, it is in a:1.") {
			t.Errorf("%+v", m)
		}
	}
}

// TestCutCall: the calls of an answer that follow one that was interrupted are not run; those of the next answer are.
func TestCutCall(t *testing.T) {
	c := &crowd{}
	main := &priced{name: "main", answers: answers{all: []model.Message{ask("shell make", "shell cut", "shell install", "view a"), ask("shell again")}}}
	var ran []string
	w := newWork(main, func(cfg *loop.Config, _ *bench) {
		cfg.Tools = c.tools()
		cfg.Do = func(ctx context.Context, _ int, tool loop.Tool, in json.RawMessage) (loop.Result, error) {
			if tool.Spec().Name != "finish" {
				ran = append(ran, string(in))
			}
			if strings.Contains(string(in), "cut") {
				return loop.Result{Text: "[interrupted]", Failed: true, Cut: true}, nil
			}
			return tool.Call(ctx, in)
		}
	})
	rep := w.Run(t.Context(), "Go.")
	if len(ran) != 3 || !strings.Contains(ran[2], "again") || len(rep.Skipped) != 2 {
		t.Errorf("ran %q, skipped %q", ran, rep.Skipped)
	}
	refused := 0
	for _, m := range main.asked[1].Messages {
		if m.Failed && strings.Contains(m.Text, "not run: a call before it was interrupted") {
			refused++
		}
	}
	if refused != 2 {
		t.Errorf("%d refused: %+v", refused, main.asked[1].Messages)
	}
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

// copying lets the sub-agents of a crowd have copies.
type copying struct {
	mu     sync.Mutex
	made   []int
	closed int
	ended  []int
	fails  error
}

func (y *copying) research(c *crowd) *loop.Research {
	r := reading(c)
	r.Copies = true
	r.Begin = func(n int) loop.Question {
		return loop.Question{
			Copy: func(context.Context) (loop.Copy, error) {
				y.mu.Lock()
				defer y.mu.Unlock()
				y.made = append(y.made, n)
				return loop.Copy{Tools: c.tools()[:2], Close: func(context.Context) {
					y.mu.Lock()
					defer y.mu.Unlock()
					y.closed++
				}}, y.fails
			},
			End: func() { y.ended = append(y.ended, n) }, // in the goroutine of the Run
		}
	}
	return r
}

func inCopy(id, text string) model.Call {
	in, _ := json.Marshal(map[string]any{"question": text, "copy": true})
	return model.Call{ID: id, Name: "research", Input: in}
}

// together is a model of an agent with its sub-agents, which begin with "Task:" and "Question:". A sub-agent answers when as many work
// at the same time as wanted.
type together struct {
	answers
	want int
	mu   sync.Mutex
	now  int
	all  chan struct{}
	subs []model.Request // of sub-agents
}

func (m *together) Generate(ctx context.Context, req model.Request, deltas func(model.Delta)) (model.Response, error) {
	name, isTask := strings.CutPrefix(req.Messages[0].Text, "Task:\n")
	question, isQuestion := strings.CutPrefix(req.Messages[0].Text, "Question:\n")
	if !isTask && !isQuestion {
		return m.answers.Generate(ctx, req, deltas)
	}
	m.mu.Lock()
	m.subs = append(m.subs, req)
	if m.now++; m.now == m.want {
		close(m.all)
	}
	m.mu.Unlock()
	select {
	case <-m.all:
	case <-ctx.Done():
		return model.Response{}, ctx.Err()
	}
	usage := api.Usage{Requests: 1, InputTokens: 5}
	if len(req.Messages) == 1 && isTask {
		return model.Response{Message: ask("shell " + name), Usage: usage}, nil
	}
	if isQuestion {
		name = question
	}
	return model.Response{Message: found("Done: " + name), Usage: usage}, nil
}

// Questions of one answer are worked on at the same time, four at once, beside calls that read. Their answers come in the order of the
// calls, and each copy is closed.
func TestCopies(t *testing.T) {
	c, y := &crowd{}, &copying{}
	m := &together{want: 4, all: make(chan struct{}), answers: answers{all: []model.Message{
		{Calls: []model.Call{inCopy("a", "A"), inCopy("b", "B"), ask("view x").Calls[0], question("c", "C").Calls[0], inCopy("d", "D"), inCopy("e", "E")}},
	}}}
	w := newWork(m, func(cfg *loop.Config, _ *bench) {
		cfg.Tools, cfg.Reads, cfg.Research = c.tools(), []string{"view"}, y.research(c)
	})
	rep := w.Run(t.Context(), "Go.")
	if rep.Stop != api.StopFinished {
		t.Fatalf("%+v", rep)
	}
	var results []string
	for _, msg := range m.asked[1].Messages {
		if msg.Role == model.RoleTool {
			results = append(results, msg.Text)
		}
	}
	if !slices.Equal(results, []string{"Done: A", "Done: B", "view of x", "Done: C", "Done: D", "Done: E"}) {
		t.Errorf("%q", results)
	}
	slices.Sort(y.made)
	if !slices.Equal(y.made, []int{1, 2, 4, 5}) || y.closed != 4 || !slices.Equal(y.ended, []int{1, 2, 3, 4, 5}) {
		t.Errorf("made %v, %d closed, ended %v", y.made, y.closed, y.ended)
	}
	for _, req := range m.subs {
		tools := []string{}
		for _, s := range req.Tools {
			tools = append(tools, s.Name)
		}
		want := []string{"view", "shell", "finish"}
		if strings.HasPrefix(req.Messages[0].Text, "Question:") {
			want = []string{"view", "finish"}
		}
		if !slices.Equal(tools, want) {
			t.Errorf("%s: %v", req.Messages[0].Text, tools)
		}
	}
	agents := map[string]int{}
	for _, e := range of[api.ModelEvent](w.facts) {
		agents[e.Agent]++
	}
	if want := map[string]int{"": 2, "research 1": 2, "research 2": 2, "research 3": 1, "research 4": 2, "research 5": 2}; !maps.Equal(agents, want) {
		t.Errorf("%v", agents)
	}
	if rep.Usage.InputTokens != 9*5 {
		t.Errorf("%+v", rep.Usage)
	}
	quiet(t)
}

// What all questions of an answer may use together is less than what is left.
func TestLent(t *testing.T) {
	c, y := &crowd{}, &copying{}
	calls := model.Message{}
	for i := range 12 {
		calls.Calls = append(calls.Calls, inCopy(fmt.Sprint("q", i), fmt.Sprint(i)))
	}
	m := &together{want: 1, all: make(chan struct{}), answers: answers{all: []model.Message{calls}}}
	w := newWork(m, func(cfg *loop.Config, _ *bench) {
		cfg.Tools, cfg.Research, cfg.Budget = c.tools(), y.research(c), api.Budget{Tokens: 20_000}
	})
	if rep := w.Run(t.Context(), "Go."); rep.Stop != api.StopFinished {
		t.Fatalf("%+v", rep)
	}
	// 5000, 3750, 2812 and so on; the seventh would have 889.
	if len(y.made) != 6 || y.closed != 6 || len(y.ended) != 6 {
		t.Errorf("made %v, ended %v", y.made, y.ended)
	}
	refused := 0
	for _, msg := range m.asked[1].Messages {
		if strings.Contains(msg.Text, "too small for research") {
			refused++
		}
	}
	if refused != 6 {
		t.Errorf("%d were refused", refused)
	}
	// What was lent is there again for the next answer.
	if left := w.Left(); left.Tokens != 20_000-12*5 {
		t.Errorf("%+v", left)
	}
}

// A sandbox that cannot be copied is said to the model, as is one that ends while a sub-agent works in it. A cancellation closes copies.
func TestCopiesFail(t *testing.T) {
	run := func(ctx context.Context, y *copying, c *crowd) (loop.Report, *together) {
		m := &together{want: 1, all: make(chan struct{}), answers: answers{all: []model.Message{{Calls: []model.Call{inCopy("a", "A")}}}}}
		w := newWork(m, func(cfg *loop.Config, _ *bench) { cfg.Tools, cfg.Research = c.tools(), y.research(c) })
		return w.Run(ctx, "Go."), m
	}
	y := &copying{fails: api.Errorf(api.KindExhausted, "no room").WithHint("Wait.")}
	rep, m := run(t.Context(), y, &crowd{})
	if got := m.asked[1].Messages[2]; rep.Stop != api.StopFinished || !got.Failed || got.Text != "The sandbox could not be copied: no room. Wait. Ask without copy, or run the commands yourself." || y.closed != 0 {
		t.Errorf("%+v, %q", rep, got.Text)
	}
	y = &copying{}
	rep, m = run(t.Context(), y, &crowd{shell: func(context.Context) error { return api.Errorf(api.KindUnavailable, "the sandbox ended") }})
	if got := m.asked[1].Messages[2]; rep.Stop != api.StopFinished || !got.Failed || !strings.Contains(got.Text, "the sandbox ended") || y.closed != 1 {
		t.Errorf("%+v, %q", rep, got.Text)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	y = &copying{}
	rep, _ = run(ctx, y, &crowd{shell: func(ctx context.Context) error { cancel(); return ctx.Err() }})
	if rep.Stop != api.StopCanceled || y.closed != 1 || len(y.ended) != 1 {
		t.Errorf("%+v, %d closed", rep, y.closed)
	}
	quiet(t)
}
