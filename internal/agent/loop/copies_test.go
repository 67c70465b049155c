package loop_test

import (
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
