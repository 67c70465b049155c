package repair

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"hortus.dev/internal/agent/loop"
	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/agent/model/offline/repair/edit"
	"hortus.dev/internal/agent/tool"
	"hortus.dev/test/agenttest"
)

// tools are the real tools over a folder.
type tools map[string]loop.Tool

func realTools(t *testing.T, files map[string]string) tools {
	t.Helper()
	sandbox := agenttest.NewSandbox(t)
	for name, text := range files {
		if err := sandbox.WriteFile(t.Context(), "/workspace/"+name, []byte(text), false); err != nil {
			t.Fatal(err)
		}
	}
	set := tool.New(tool.Config{Sandbox: sandbox})
	t.Cleanup(func() { set.Close(t.Context()) })
	all := tools{}
	for _, x := range set.All() {
		all[x.Spec().Name] = x
	}
	return all
}

// answer plays one answer of the agent.
func (all tools) answer(t *testing.T, h *history) []model.Message {
	t.Helper()
	msg := h.answer(nil).Message
	out := append(h.messages, msg)
	for _, c := range msg.Calls {
		res, err := all[c.Name].Call(t.Context(), c.Input)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, model.Message{Role: model.RoleTool, CallID: c.ID, Text: res.Text})
	}
	return out
}

// The tool shows whole what the agent asks it for: its bound is above the agent's.
func TestViewsAreWhole(t *testing.T) {
	var text strings.Builder
	for i := range 900 {
		fmt.Fprintf(&text, "line_%d = %d  # %s\n", i, i, strings.Repeat("x", i%60))
	}
	all := realTools(t, map[string]string{"a.py": text.String()})
	files := []entry{{path: "a.py", lines: 900, bytes: text.Len()}}
	var results []string
	for _, c := range views(files) {
		res, err := all["view"].Call(t.Context(), c.Input)
		if err != nil {
			t.Fatal(err)
		}
		results = append(results, res.Text)
	}
	got := readViews(files, results)
	if want := []edit.File{{Path: "a.py", Text: text.String()}}; len(got) != 1 || got[0] != want[0] {
		t.Errorf("%d files", len(got))
	}
}

// A result that refers to an earlier one is asked for again, and only then.
func TestAskAgain(t *testing.T) {
	text := strings.Repeat("some line of a file\n", 100)
	all := realTools(t, map[string]string{"a.py": text, "b.py": text + "another\n"})
	view := func(name string) model.Call { return call("view", map[string]any{"path": name}) }
	cat := call("shell", map[string]any{"command": "cat a.py"})
	messages := []model.Message{{Role: model.RoleUser, Text: "Go."}}
	asked := 0
	for _, c := range []struct {
		calls []model.Call
		times int
	}{
		{[]model.Call{view("a.py")}, 1},
		{[]model.Call{view("b.py"), view("a.py")}, 2}, // a.py was shown
		{[]model.Call{cat}, 1},
		{[]model.Call{call("shell", map[string]any{"command": "cat  a.py"})}, 2},
	} {
		for n := 1; ; n++ {
			h := &history{messages: messages, step: asked}
			results, ok := h.ask("", append([]model.Call(nil), c.calls...)...)
			if ok {
				if n-1 != c.times {
					t.Errorf("asked %d times, want %d", n-1, c.times)
				}
				for _, r := range results {
					if !strings.Contains(r, "some line of a file\n") {
						t.Errorf("%.200q", r)
					}
				}
				break
			}
			if n > 3 {
				t.Fatal("it never ends")
			}
			asked++
			messages = all.answer(t, h)
		}
	}
	seen := map[string]bool{}
	for _, m := range messages {
		for _, c := range m.Calls {
			if seen[c.ID] || !json.Valid(c.Input) {
				t.Errorf("%q", c.ID)
			}
			seen[c.ID] = true
		}
	}
}
