package loop_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent/loop"
	"hortus.dev/internal/agent/model"
)

// answers is a model that gives prepared answers, and keeps what it was asked.
type answers struct {
	all   []model.Message
	asked []model.Request
}

func (*answers) Name() string { return "answers" }

func (a *answers) Generate(_ context.Context, req model.Request, _ func(model.Delta)) (model.Response, error) {
	a.asked = append(a.asked, req)
	m := model.Message{Text: "done", Calls: []model.Call{{ID: "end", Name: "finish", Input: json.RawMessage(`{"summary":"ok"}`)}}}
	if len(a.all) > 0 {
		m, a.all = a.all[0], a.all[1:]
	}
	m.Role = model.RoleAssistant
	return model.Response{Message: m, Stop: model.StopTools, Usage: api.Usage{Requests: 1}}, nil
}

// ask is an answer with calls: "view a", "shell make".
func ask(calls ...string) (m model.Message) {
	for i, c := range calls {
		name, arg, _ := strings.Cut(c, " ")
		in, _ := json.Marshal(map[string]string{map[string]string{"view": "path", "shell": "command"}[name]: arg})
		if name == "view" && arg == "?" {
			in = json.RawMessage(`{"file":1}`)
		}
		m.Calls = append(m.Calls, model.Call{ID: fmt.Sprintf("%s-%d", arg, i), Name: name, Input: in})
	}
	return m
}

// crowd is tools that tell how many calls run at the same time.
type crowd struct {
	now, most atomic.Int64
	mu        sync.Mutex
	order     []string
	// view is what a view does, by its path.
	view func(ctx context.Context, path string) error
	// shell is what a command does.
	shell func(ctx context.Context) error
}

func (c *crowd) tools() []loop.Tool {
	run := func(name string) func(ctx context.Context, in json.RawMessage) (loop.Result, error) {
		return func(ctx context.Context, in json.RawMessage) (loop.Result, error) {
			n := c.now.Add(1)
			defer c.now.Add(-1)
			for {
				if m := c.most.Load(); n <= m || c.most.CompareAndSwap(m, n) {
					break
				}
			}
			var x struct{ Path, Command string }
			_ = json.Unmarshal(in, &x)
			c.mu.Lock()
			c.order = append(c.order, name+" "+x.Path+x.Command)
			c.mu.Unlock()
			var err error
			if name == "view" && c.view != nil {
				err = c.view(ctx, x.Path)
			}
			if name == "shell" && c.shell != nil {
				err = c.shell(ctx)
			}
			return loop.Result{Text: name + " of " + x.Path + x.Command}, err
		}
	}
	finish := tool{spec("finish", `"summary":{"type":"string"}`, "summary"), func(context.Context, json.RawMessage) (loop.Result, error) {
		return loop.Result{Text: "done", Finish: &loop.Finish{Summary: "ok"}}, nil
	}}
	return []loop.Tool{
		tool{spec("view", `"path":{"type":"string"}`, "path"), run("view")},
		tool{spec("shell", `"command":{"type":"string"}`, "command"), run("shell")}, finish,
	}
}

// meeting returns a function that returns when n calls of it wait.
func meeting(n int) func(ctx context.Context) error {
	var mu sync.Mutex
	here, all := 0, make(chan struct{})
	return func(ctx context.Context) error {
		mu.Lock()
		if here++; here == n {
			close(all)
		}
		mu.Unlock()
		select {
		case <-all:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Calls that read run at the same time, at most so many, and their results are in the order of the calls; what changes
// something waits for those before it, and those after it wait for it.
func TestBeside(t *testing.T) {
	c := &crowd{}
	meet := meeting(3)
	c.view = func(ctx context.Context, path string) error {
		if strings.HasPrefix(path, "m") {
			return meet(ctx) // none of the three ends without the others
		}
		return nil
	}
	var many []string
	for i := range 20 {
		many = append(many, fmt.Sprint("view n", i))
	}
	m := &answers{all: []model.Message{ask("view m1", "view ?", "view m2", "view m3", "shell make", "view last", "shell end"), ask(many...)}}
	w := newWork(m, func(cfg *loop.Config, _ *bench) { cfg.Tools, cfg.Reads = c.tools(), []string{"view"} })
	rep := w.Run(t.Context(), "Go.")
	if rep.Stop != api.StopFinished {
		t.Fatalf("%+v", rep)
	}
	w.entries(t)
	first := slices.Clone(c.order[:3])
	slices.Sort(first)
	if got, want := append(first, c.order[3:6]...), []string{"view m1", "view m2", "view m3", "shell make", "view last", "shell end"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	var results []string
	for _, x := range m.asked[1].Messages {
		if x.Role == model.RoleTool {
			results = append(results, x.Text)
		}
	}
	if len(results) != 7 || results[0] != "view of m1" || results[2] != "view of m2" || results[3] != "view of m3" || results[6] != "shell of end" || !strings.Contains(results[1], "The input is wrong") {
		t.Errorf("%q", results)
	}
	if len(rep.Completed) != 27 || rep.Completed[0] != "view m1" || rep.Completed[25] != "view n19" {
		t.Errorf("%q", rep.Completed)
	}
	if most := c.most.Load(); most > 8 {
		t.Errorf("%d calls at the same time", most)
	}
	quiet(t)
}

// The control: without the table nothing runs side by side.
func TestNotBeside(t *testing.T) {
	c := &crowd{}
	m := &answers{all: []model.Message{ask("view a", "view b", "view c")}}
	w := newWork(m, func(cfg *loop.Config, _ *bench) { cfg.Tools = c.tools() })
	w.Run(t.Context(), "Go.")
	if c.most.Load() != 1 || !slices.Equal(c.order, []string{"view a", "view b", "view c"}) {
		t.Errorf("%d at the same time, %q", c.most.Load(), c.order)
	}
}

// A cancellation in the middle of calls that run side by side: what ended is completed, the others are skipped, and so is
// what follows.
func TestCancelBeside(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := &crowd{}
	ended := make(chan struct{})
	c.view = func(ctx context.Context, path string) error {
		switch path {
		case "quick":
			close(ended)
			return nil
		case "cancels":
			<-ended
			cancel()
		}
		<-ctx.Done()
		return ctx.Err()
	}
	m := &answers{all: []model.Message{ask("view slow", "view quick", "view cancels", "shell make", "view never")}}
	w := newWork(m, func(cfg *loop.Config, _ *bench) { cfg.Tools, cfg.Reads = c.tools(), []string{"view"} })
	rep := w.Run(ctx, "Go.")
	if rep.Stop != api.StopCanceled || !slices.Equal(rep.Completed, []string{"view quick"}) ||
		!slices.Equal(rep.Skipped, []string{"view slow (stopped)", "view cancels (stopped)", "shell make", "view never"}) {
		t.Errorf("%s, completed %q, skipped %q", rep.Stop, rep.Completed, rep.Skipped)
	}
	w.entries(t)
	quiet(t)
	if rep := w.Run(t.Context(), "Go on."); rep.Stop != api.StopFinished {
		t.Errorf("%+v", rep)
	}
}

// A tool that panics beside others ends the Run where its caller can recover.
func TestPanicBeside(t *testing.T) {
	c := &crowd{view: func(_ context.Context, path string) error {
		if path == "b" {
			panic("broken")
		}
		return nil
	}}
	w := newWork(&answers{all: []model.Message{ask("view a", "view b")}}, func(cfg *loop.Config, _ *bench) { cfg.Tools, cfg.Reads = c.tools(), []string{"view"} })
	defer func() {
		if v := recover(); v != "broken" {
			t.Errorf("recovered %v", v)
		}
	}()
	w.Run(t.Context(), "Go.")
	t.Error("it did not panic")
}

// heard calls a function at every piece of an answer.
type heard struct {
	model.Model
	piece func(model.Delta)
}

func (h heard) Generate(ctx context.Context, req model.Request, deltas func(model.Delta)) (model.Response, error) {
	return h.Model.Generate(ctx, req, func(d model.Delta) { deltas(d); h.piece(d) })
}

// quiet waits until no goroutine of the loop or of a model's client is left.
func quiet(t *testing.T) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		var b strings.Builder
		if err := pprof.Lookup("goroutine").WriteTo(&b, 1); err != nil {
			t.Fatal(err)
		}
		left := ""
		for stack := range strings.SplitSeq(b.String(), "\n\n") {
			ours := strings.Contains(stack, "internal/agent/loop.") || strings.Contains(stack, "internal/agent/model/") || strings.Contains(stack, "internal/agent/turn")
			if ours && !strings.Contains(stack, "testing.tRunner") {
				left = stack
			}
		}
		if left == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("a goroutine is left:\n%s", left)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// In the middle of a text: what was said stays, marked as cut, and the next Run
// continues from there.
func TestCancelText(t *testing.T) {
	each(t, `
-- endless --
endless: true
pace: 1ms

on
-- next --
last: Go on.
expect: onon
call: finish

{"summary": "ok"}
`, func(t *testing.T, m model.Model, _ *requests) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		n := 0
		w := newWork(heard{m, func(model.Delta) {
			if n++; n == 5 {
				cancel()
			}
		}}, nil)
		rep := w.Run(ctx, "Go.")
		if rep.Stop != api.StopCanceled || !errors.Is(rep.Err, context.Canceled) || !strings.HasPrefix(rep.Text, "onon") || rep.Steps != 0 {
			t.Fatalf("%+v", rep)
		}
		if says := of[api.SayEvent](w.facts); len(says) != 1 || !says[0].Cut || says[0].Text != rep.Text {
			t.Errorf("%+v", says)
		}
		if all := w.entries(t); !all[2].Cut || all[2].Text != rep.Text || all[3].Stop != api.StopCanceled {
			t.Errorf("%+v", all)
		}
		quiet(t)
		if rep := w.Run(t.Context(), "Go on."); rep.Stop != api.StopFinished {
			t.Errorf("%+v", rep)
		}
		w.entries(t)
	})
}

// In the middle of a call: the tool gets the context, and what was requested and
// did not run is told and answered.
func TestCancelTool(t *testing.T) {
	each(t, `
-- three --
call: view
also: shell {"command": "sleep"}
also: view {"path": "b.txt"}

{"path": "a.txt"}
`, func(t *testing.T, m model.Model, _ *requests) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w := newWork(m, func(_ *loop.Config, b *bench) {
			b.wait = func(ctx context.Context) { cancel(); <-ctx.Done() }
		})
		rep := w.Run(ctx, "Go.")
		if rep.Stop != api.StopCanceled || !slices.Equal(rep.Completed, []string{"view a.txt"}) ||
			!slices.Equal(rep.Skipped, []string{"shell sleep (stopped)", "view b.txt"}) {
			t.Errorf("%+v", rep)
		}
		if h := w.History(); h[3].Text != "so far" || !h[3].Failed || !strings.Contains(h[4].Text, "not run") {
			t.Errorf("%+v", h)
		}
		w.entries(t)
		quiet(t)
	})
}
