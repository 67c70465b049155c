package loop_test

import (
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

// lists is a tool that returns a list, one item for each state of its input.
func lists() loop.Tool {
	return tool{spec("todo", `"states":{"type":"array","items":{"type":"string"}}`, "states"), func(_ context.Context, in json.RawMessage) (loop.Result, error) {
		var x struct{ States []string }
		_ = json.Unmarshal(in, &x)
		res := loop.Result{Text: "written", Todo: []api.TodoItem{}}
		for i, s := range x.States {
			res.Todo = append(res.Todo, api.TodoItem{Text: fmt.Sprintf("part %d\n of it", i+1), State: s})
		}
		return res, nil
	}}
}

func list(id string, states ...string) model.Message {
	in, _ := json.Marshal(map[string]any{"states": states})
	return model.Message{Calls: []model.Call{{ID: id, Name: "todo", Input: in}}}
}

// notices are what the loop told the model that has a text in it, in the request of an answer.
func notices(req model.Request, with string) (all []string) {
	for _, m := range req.Messages {
		if m.Role == model.RoleUser && strings.HasPrefix(m.Text, "[Notice]") && strings.Contains(m.Text, with) {
			all = append(all, m.Text)
		}
	}
	return all
}

// The list is told as the model wrote it, and a model that forgets it is reminded sparsely: after 15 answers, 30 and 60.
func TestTodo(t *testing.T) {
	all := []model.Message{list("l1", "done", "active", "nonsense")}
	for i := range 110 {
		all = append(all, ask(fmt.Sprint("shell n", i)))
	}
	all = append(all, list("l2", "done", "done"))
	for i := range 20 {
		all = append(all, ask(fmt.Sprint("shell m", i)))
	}
	m := &answers{all: all}
	c := &crowd{}
	w := newWork(m, func(cfg *loop.Config, _ *bench) { cfg.Tools = append(c.tools(), lists()) })
	if rep := w.Run(t.Context(), "Go."); rep.Stop != api.StopFinished {
		t.Fatalf("%+v", rep)
	}
	told := of[api.TodoEvent](w.facts)
	if want := []api.TodoItem{{Text: "part 1 of it", State: "done"}, {Text: "part 2 of it", State: "active"}, {Text: "part 3 of it", State: "pending"}}; len(told) != 2 || !slices.Equal(told[0].Items, want) || told[1].Step != 112 {
		t.Errorf("%+v", told)
	}
	var at []int
	for i, req := range m.asked {
		if n := len(notices(req, "todo list did not change")); n > len(at) {
			at = append(at, i)
		}
	}
	// Nothing is said of a list that is done.
	if want := []int{16, 46, 106}; !slices.Equal(at, want) {
		t.Errorf("reminded before the answers %v, want %v", at, want)
	}
	if n := notices(m.asked[16], "2 items are open"); len(n) != 1 {
		t.Errorf("%q", n)
	}
}

// After each way to shorten the history the list stands at its end, once.
func TestTodoCompact(t *testing.T) {
	for how, summary := range map[string]string{"summary": strings.Repeat("All that was done is here. ", 4), "list": ""} {
		t.Run(how, func(t *testing.T) {
			long := strings.Repeat("words and words ", 400)
			all := []model.Message{list("l1", "active", "pending")}
			for i := range 8 {
				all = append(all, ask(fmt.Sprint("shell n", i)))
			}
			m := &summarizing{answers: answers{all: all}, summary: summary}
			shell := tool{spec("shell", `"command":{"type":"string"}`, "command"), func(context.Context, json.RawMessage) (loop.Result, error) {
				return loop.Result{Text: long}, nil
			}}
			w := newWork(m, func(cfg *loop.Config, _ *bench) {
				cfg.Tools, cfg.Window = append([]loop.Tool{shell, lists()}, (&crowd{}).tools()[2]), 12_000
			})
			if rep := w.Run(t.Context(), "Go."); rep.Stop != api.StopFinished {
				t.Fatalf("%+v", rep)
			}
			w.entries(t)
			n := len(of[api.CompactEvent](w.facts))
			last := m.asked[len(m.asked)-1]
			if said := notices(last, "- [active] part 1 of it\n- [pending] part 2 of it"); n == 0 || len(said) == 0 || len(said) > n {
				t.Errorf("%d times shortened; %q", n, said)
			}
		})
	}
}

// summarizing is answers that also writes summaries.
type summarizing struct {
	answers
	summary string
}

func (s *summarizing) Generate(ctx context.Context, req model.Request, deltas func(model.Delta)) (model.Response, error) {
	if last := req.Messages[len(req.Messages)-1]; strings.Contains(last.Text, "Write a summary of your work") {
		return model.Response{Message: model.Message{Role: model.RoleAssistant, Text: s.summary}, Usage: api.Usage{Requests: 1}}, nil
	}
	return s.answers.Generate(ctx, req, deltas)
}
