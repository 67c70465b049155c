package loop_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent/loop"
	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/agent/model/anthropic"
	"hortus.dev/internal/agent/model/openai"
	"hortus.dev/internal/agent/model/retry"
	"hortus.dev/test/modelserver"
)

// clients are the models that people use, on a server that plays a scenario. They
// try again without waiting.
var clients = map[string]func(base string) model.Model{
	"messages": func(base string) model.Model {
		return anthropic.New(anthropic.Config{BaseURL: base, APIKey: "k"})
	},
	"chat":      openaiClient(openai.Chat),
	"responses": openaiClient(openai.Responses),
}

func openaiClient(way openai.API) func(string) model.Model {
	return func(base string) model.Model {
		m, err := openai.New(openai.Config{API: way, BaseURL: base + "/v1", APIKey: "k"})
		if err != nil {
			panic(err)
		}
		return m
	}
}

func patient(m model.Model) model.Model {
	return retry.New(m, retry.Config{Tries: 3, Wait: func(ctx context.Context, _ time.Duration) error { return ctx.Err() }})
}

// requests keeps the bodies that a server got.
type requests struct {
	mu  sync.Mutex
	all [][]byte
}

// play serves a scenario. In the end nothing may have gone against it.
func play(t *testing.T, scenario string) (string, *requests) {
	t.Helper()
	s, err := modelserver.New([]byte(scenario))
	if err != nil {
		t.Fatal(err)
	}
	got := &requests{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		got.mu.Lock()
		got.all = append(got.all, body)
		got.mu.Unlock()
		r.Body = io.NopCloser(bytes.NewReader(body))
		s.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		srv.Close()
		for _, p := range s.Problems() {
			t.Error(p)
		}
	})
	return srv.URL, got
}

// each runs a test with every client on the scenario.
func each(t *testing.T, scenario string, test func(t *testing.T, m model.Model, got *requests)) {
	t.Helper()
	for name, client := range clients {
		t.Run(name, func(t *testing.T) {
			base, got := play(t, scenario)
			test(t, client(base), got)
		})
	}
}

// facts keeps what was emitted.
type facts struct {
	mu    sync.Mutex
	kinds []api.EventType
	data  []any
}

func (f *facts) Emit(_ context.Context, t api.EventType, data any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.kinds, f.data = append(f.kinds, t), append(f.data, data)
}

// of returns the facts of one type.
func of[T any](f *facts) (all []T) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, d := range f.data {
		if x, ok := d.(T); ok {
			all = append(all, x)
		}
	}
	return all
}

// tool is a tool made of a function.
type tool struct {
	spec model.Tool
	call func(ctx context.Context, input json.RawMessage) (loop.Result, error)
}

func (t tool) Spec() model.Tool { return t.spec }

func (t tool) Call(ctx context.Context, input json.RawMessage) (loop.Result, error) {
	return t.call(ctx, input)
}

func spec(name, fields string, required ...string) model.Tool {
	r, _ := json.Marshal(append([]string{}, required...))
	return model.Tool{Name: name, Description: "The tool " + name, Input: json.RawMessage(
		`{"type":"object","properties":{` + fields + `},"required":` + string(r) + `,"additionalProperties":false}`)}
}

// bench is a small set of tools over a map of files.
type bench struct {
	files map[string]string
	calls []string
	// wait, when set, is what shell does until its context ends.
	wait  func(ctx context.Context)
	fails error
	// after is called at the end of each shell.
	after func()
}

func (b *bench) tools() []loop.Tool {
	return []loop.Tool{
		tool{spec("view", `"path":{"type":"string"},"lines":{"type":"integer"}`, "path"), func(_ context.Context, in json.RawMessage) (loop.Result, error) {
			var x struct{ Path string }
			_ = json.Unmarshal(in, &x)
			b.calls = append(b.calls, "view "+x.Path)
			text, ok := b.files[x.Path]
			if !ok {
				return loop.Result{Text: "There is no file " + x.Path, Failed: true}, nil
			}
			return loop.Result{Text: text}, nil
		}},
		tool{spec("shell", `"command":{"type":"string"}`, "command"), func(ctx context.Context, in json.RawMessage) (loop.Result, error) {
			var x struct{ Command string }
			_ = json.Unmarshal(in, &x)
			b.calls = append(b.calls, "shell "+x.Command)
			if b.wait != nil {
				b.wait(ctx)
				return loop.Result{Text: "so far"}, ctx.Err()
			}
			if b.after != nil {
				b.after()
			}
			return loop.Result{Text: "ran " + x.Command, OutputBytes: 1000, Waiting: x.Command == "wait", Cut: x.Command == "cut"}, b.fails
		}},
		tool{spec("finish", `"summary":{"type":"string"},"blocked":{"type":"string"}`, "summary"), func(_ context.Context, in json.RawMessage) (loop.Result, error) {
			var x struct{ Summary, Blocked string }
			_ = json.Unmarshal(in, &x)
			return loop.Result{Text: "done", Finish: &loop.Finish{Summary: x.Summary, Blocked: x.Blocked}}, nil
		}},
	}
}

// work is a loop with all that a test looks at.
type work struct {
	*loop.Loop
	bench  *bench
	facts  *facts
	script bytes.Buffer
}

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func newWork(m model.Model, change func(*loop.Config, *bench)) *work {
	w := &work{bench: &bench{files: map[string]string{"a.txt": "the text of a", "b.txt": "the text of b"}}, facts: &facts{}}
	cfg := loop.Config{Model: m, System: loop.System, Emit: w.facts, Transcript: &w.script, Now: func() time.Time { return noon }}
	if change != nil {
		change(&cfg, w.bench)
	}
	if cfg.Tools == nil {
		cfg.Tools = w.bench.tools()
	}
	w.Loop = loop.New(cfg)
	return w
}

// entries reads the transcript, and holds the history to what vendors take.
func (w *work) entries(t *testing.T) (all []loop.Entry) {
	t.Helper()
	valid(t, w.History())
	if cut, err := loop.ReadTranscript(bytes.NewReader(w.script.Bytes()), func(e loop.Entry) error { all = append(all, e); return nil }); cut || err != nil {
		t.Fatalf("transcript: cut %v, %v", cut, err)
	}
	return all
}

// valid holds a history to the vendors' rules: it begins with the user, every call
// has exactly one result, at once, with its identifier, and none is used twice.
func valid(t *testing.T, all []model.Message) {
	t.Helper()
	if len(all) > 0 && all[0].Role != model.RoleUser {
		t.Errorf("the history begins with %s", all[0].Role)
	}
	var open []string
	seen := map[string]bool{}
	for i, m := range all {
		if m.Role != model.RoleTool && len(open) > 0 {
			t.Fatalf("message %d comes before the results of %q", i, open)
		}
		switch m.Role {
		case model.RoleTool:
			if len(open) == 0 || open[0] != m.CallID {
				t.Fatalf("message %d answers %q, open are %q", i, m.CallID, open)
			}
			open = open[1:]
			if strings.TrimSpace(m.Text) == "" {
				t.Errorf("message %d is an empty result", i)
			}
		case model.RoleAssistant:
			for _, c := range m.Calls {
				if c.ID == "" || seen[c.ID] {
					t.Errorf("message %d has the identifier %q again", i, c.ID)
				}
				seen[c.ID] = true
				open = append(open, c.ID)
			}
		}
	}
	if len(open) > 0 {
		t.Errorf("%q have no result", open)
	}
}

func TestWork(t *testing.T) {
	each(t, `
-- look --
last: Mend it.
expect: The tool view
say: I look at both.
call: view
also: view {"path": "b.txt"}

{"path": "a.txt"}
-- wrong name --
last: the text of a
last: the text of b
call: View

{"path": "a.txt"}
-- unknown --
last: There is no tool "View". Did you mean view?
call: fly

{}
-- half JSON --
last: The tools are: view, shell, finish.
call: shell
also: view {"path": "a.txt"}

{"command": "ls
-- wrong type --
last: it is truncated
last: The fields of shell: command string.
last: the text of a
call: view

{"path": 7, "lines": "x"}
-- missing --
last: lines must be a whole number, not a string
call: view

{"lines": 3}
-- fails --
last: lacks the field "path"
call: view

{"path": "c.txt"}
-- run --
last: There is no file c.txt
call: shell

{"command": "make test"}
-- end --
last: ran make test
call: finish

{"summary": "mended"}
`, func(t *testing.T, m model.Model, _ *requests) {
		w := newWork(m, nil)
		rep := w.Run(t.Context(), "Mend it.")
		if rep.Stop != api.StopFinished || rep.Finish == nil || rep.Finish.Summary != "mended" || rep.Steps != 9 || rep.Err != nil {
			t.Fatalf("%+v", rep)
		}
		if want := []string{"view a.txt", "view b.txt", "view a.txt", "view c.txt", "shell make test"}; !slices.Equal(w.bench.calls, want) {
			t.Errorf("calls %q", w.bench.calls)
		}
		if rep.Usage.Requests != 9 || rep.Usage.InputTokens != 900 || w.Usage() != rep.Usage || w.Steps() != 9 {
			t.Errorf("usage %+v", rep.Usage)
		}
		if len(rep.Completed) != 6 || rep.Completed[4] != "shell make test" || len(rep.Skipped) != 0 {
			t.Errorf("completed %q, skipped %q", rep.Completed, rep.Skipped)
		}
		says, tools := of[api.SayEvent](w.facts), of[api.ToolEvent](w.facts)
		if len(says) != 1 || says[0] != (api.SayEvent{Round: 1, Step: 1, Text: "I look at both."}) {
			t.Errorf("said %+v", says)
		}
		if len(tools) != 11 || tools[0].Tool != "view" || tools[0].Input != "a.txt" || tools[0].Output != "the text of a" || !tools[2].Failed || tools[2].Step != 2 {
			t.Errorf("%d tools: %+v", len(tools), tools)
		}
		if calls := of[api.ModelEvent](w.facts); len(calls) != 9 || calls[0].Role != "agent" {
			t.Errorf("%+v", calls)
		}
		if again := of[api.ModelRetryEvent](w.facts); len(again) != 4 || again[1].Attempt != 2 || again[2].Attempt != 1 {
			t.Errorf("%+v", again)
		}
		all := w.entries(t)
		if all[0].Kind != loop.KindSystem || all[1].Text != "Mend it." || all[2].Calls[1].Input != `{"path": "b.txt"}` || all[3].Text != "the text of a" {
			t.Errorf("%+v", all[:4])
		}
		if last := all[len(all)-1]; last.Kind != loop.KindStop || last.Stop != api.StopFinished || last.Usage.Requests != 9 {
			t.Errorf("%+v", last)
		}
	})
}

// Another Run continues with the same history, steps and identifiers.
func TestSecondRun(t *testing.T) {
	each(t, `
-- one --
call: finish

{"summary": "first"}
-- two --
expect: Mend it.
last: The gate failed
call: finish

{"summary": "second"}
`, func(t *testing.T, m model.Model, _ *requests) {
		w := newWork(m, func(c *loop.Config, _ *bench) { c.Budget.Steps = 2 })
		w.Run(t.Context(), "Mend it.")
		rep := w.Run(t.Context(), loop.GateFailed(api.Gate{Command: "make", Exit: api.Exit{Code: 2}}, 1, 2, false))
		if rep.Stop != api.StopFinished || rep.Finish.Summary != "second" || rep.Steps != 1 || rep.Usage.Requests != 1 || w.Steps() != 2 || w.Usage().Requests != 2 {
			t.Errorf("%+v", rep)
		}
		if rep := w.Run(t.Context(), "more"); rep.Stop != api.StopSteps || rep.Steps != 0 {
			t.Errorf("%+v", rep)
		}
		if tools := of[api.ToolEvent](w.facts); tools[1].Round != 2 || tools[1].Step != 2 {
			t.Errorf("%+v", tools)
		}
		w.entries(t)
	})
}

func TestNudge(t *testing.T) {
	each(t, `
-- talk --

I think.
-- call --
last: Your answer has no tool call
call: view

{"path": "a.txt"}
-- talk again --

I think again.
-- and again --
last: Your answer has no tool call

That is all.
`, func(t *testing.T, m model.Model, _ *requests) {
		w := newWork(m, nil)
		if rep := w.Run(t.Context(), "Go."); rep.Stop != api.StopEnded || rep.Steps != 4 || rep.Text != "That is all." {
			t.Errorf("%+v", rep)
		}
		w.entries(t)
	})
}

func localModel(t *testing.T, base string) model.Model {
	t.Helper()
	m, err := openai.New(openai.Config{API: openai.Chat, BaseURL: base + "/v1", Model: "local"})
	if err != nil {
		t.Fatal(err)
	}
	return m
}
