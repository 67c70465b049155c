package loop_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/agent/loop"
	"hortus.dev/internal/agent/model"
)

const summaryText = "I was asked to go. I read the file a.txt four times, changed nothing, and make test is to be run next."

// The history is cut first, then summed up by the model, and goes on to the end
// with every request valid.
func TestCompact(t *testing.T) {
	big := strings.Repeat("0123456789abcdef\n", 300) // 5,100 bytes
	var script strings.Builder
	for i := range 7 {
		fmt.Fprintf(&script, "-- read %d --\nusage: %d 0 50\ncall: view\n\n{\"path\": \"a.txt\", \"lines\": %d}\n", i+1, 1500+1750*i, i)
	}
	// 12,000 of 17,000 tokens were counted, and the last result is to come: the results before the last four answers are cut,
	// which is not enough.
	script.WriteString("-- summary --\nexpect: Go.\nlast: Write a summary of your work so far\nexpect: The tool view\nusage: 14000 13000 60\n\n" + summaryText + "\n")
	script.WriteString("-- go on --\nexpect: Go.\nexpect: " + summaryText + "\nlast: 0123456789abcdef\nusage: 7500 0 50\ncall: finish\n\n{\"summary\": \"ok\"}\n")
	each(t, script.String(), func(t *testing.T, m model.Model, _ *requests) {
		w := newWork(checked{m, t}, func(c *loop.Config, b *bench) {
			c.Window = 17_000
			b.files["a.txt"] = big
		})
		rep := w.Run(t.Context(), "Go.")
		if rep.Stop != api.StopFinished || rep.Steps != 8 || rep.Usage.Requests != 9 {
			t.Errorf("%+v", rep)
		}
		ev := of[api.CompactEvent](w.facts)
		if len(ev) != 1 || ev[0].Step != 7 || ev[0].TokensBefore < 12_750 || ev[0].TokensAfter > ev[0].TokensBefore*3/4 {
			t.Errorf("%+v", ev)
		}
		h := w.History()
		if h[0].Text != "Go." || !strings.Contains(h[1].Text, summaryText) || !strings.HasPrefix(h[1].Text, "[Your summary") || len(h) != 2+8+2 || h[3].Text != big {
			t.Errorf("%d messages: %+v", len(h), h[:2])
		}
		found := false
		for _, e := range w.entries(t) {
			found = found || e.Kind == loop.KindCompact && e.How == "summary" && strings.Contains(e.Text, summaryText) && e.Before == ev[0].TokensBefore
		}
		if !found {
			t.Error("the transcript does not tell it")
		}
	})
}

// checked holds every request to the vendors' rules.
type checked struct {
	model.Model
	t *testing.T
}

func (c checked) Generate(ctx context.Context, req model.Request, deltas func(model.Delta)) (model.Response, error) {
	valid(c.t, req.Messages)
	return c.Model.Generate(ctx, req, deltas)
}

// reader reads for ever, and answers the question for a summary as it was told.
type reader struct {
	t       *testing.T
	summary func() (model.Response, error)
	largest int
	asked   int
	n       int
}

func (*reader) Name() string { return "reader" }

func (r *reader) Generate(_ context.Context, req model.Request, _ func(model.Delta)) (model.Response, error) {
	valid(r.t, req.Messages)
	size := len(req.System)
	for _, m := range req.Messages {
		size += len(m.Text)
		for _, c := range m.Calls {
			size += len(c.Input)
		}
	}
	r.largest = max(r.largest, size)
	if req.Messages[0].Text != "Go." {
		r.t.Errorf("the first message is %q", req.Messages[0].Text)
	}
	if strings.Contains(req.Messages[len(req.Messages)-1].Text, "Write a summary of your work so far") {
		r.asked++
		return r.summary()
	}
	r.n++
	return model.Response{Stop: model.StopTools, Message: model.Message{Role: model.RoleAssistant, Text: fmt.Sprint("step ", r.n),
		Calls: []model.Call{{ID: "x", Name: "shell", Input: json.RawMessage(fmt.Sprintf(`{"command":"step %d of the work"}`, r.n))}}}}, nil
}

// Whatever becomes of the summary, the history stays within the window, and what it
// is about is not lost altogether. Nobody counts tokens here: they are guessed.
func TestCompactWithoutSummary(t *testing.T) {
	for name, summary := range map[string]func() (model.Response, error){
		"a call": func() (model.Response, error) {
			return model.Response{Message: model.Message{Calls: []model.Call{{ID: "s", Name: "shell", Input: json.RawMessage(`{"command":"evil"}`)}}}}, nil
		},
		"nothing": func() (model.Response, error) { return model.Response{}, nil },
		"an error": func() (model.Response, error) {
			return model.Response{}, api.Errorf(api.KindUnavailable, "overloaded")
		},
		"refused": func() (model.Response, error) { return model.Response{}, api.Errorf(api.KindDeclined, "no") },
		"too long": func() (model.Response, error) {
			return model.Response{Message: model.Message{Text: strings.Repeat("a summary ", 1<<20)}}, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := &reader{t: t, summary: summary}
			w := newWork(r, func(c *loop.Config, b *bench) {
				c.Budget.Steps, c.Window = 120, 20_000
				c.Tools = []loop.Tool{tool{spec("shell", `"command":{"type":"string"}`, "command"), func(_ context.Context, in json.RawMessage) (loop.Result, error) {
					if strings.Contains(string(in), "evil") {
						t.Error("a call of a summary was run")
					}
					return loop.Result{Text: string(in) + strings.Repeat(" and its output", 200)}, nil
				}}}
			})
			rep := w.Run(t.Context(), "Go.")
			if rep.Stop != api.StopSteps || rep.Steps != 120 {
				t.Fatalf("%+v", rep)
			}
			// 20,000 tokens of at least 3 bytes.
			if r.largest > 60_000 || r.asked == 0 {
				t.Errorf("the largest request has %d bytes; asked %d times", r.largest, r.asked)
			}
			ev := of[api.CompactEvent](w.facts)
			if len(ev) < 2 || len(ev) > 30 {
				t.Errorf("shortened %d times", len(ev))
			}
			if h := w.History()[1].Text; name != "too long" && !strings.Contains(h, "- shell step ") {
				t.Errorf("what was done is lost: %.200q", h)
			}
			w.entries(t)
		})
	}
}

// Cutting alone is enough where it is results that make the history long.
func TestCutResults(t *testing.T) {
	r := &reader{t: t, summary: func() (model.Response, error) { t.Error("asked for a summary"); return model.Response{}, nil }}
	w := newWork(r, func(c *loop.Config, b *bench) {
		c.Budget.Steps, c.Window = 30, 100_000
		c.Tools = []loop.Tool{tool{spec("shell", `"command":{"type":"string"}`, "command"), func(_ context.Context, in json.RawMessage) (loop.Result, error) {
			return loop.Result{Text: string(in) + strings.Repeat(" and its output", 1000)}, nil
		}}}
	})
	if rep := w.Run(t.Context(), "Go."); rep.Stop != api.StopSteps {
		t.Fatalf("%+v", rep)
	}
	h := w.History()
	if !strings.HasPrefix(h[2].Text, "[result of shell step 1 of the work truncated to save context") || len(h[2].Text) > 400 {
		t.Errorf("%.300q", h[2].Text)
	}
	if len(h) != 1+2*30+1 || len(h[len(h)-1].Text) < 15_000 {
		t.Errorf("%d messages", len(h))
	}
	if ev := of[api.CompactEvent](w.facts); len(ev) == 0 || len(ev) > 4 {
		t.Errorf("%+v", ev)
	}
}

// One result that fills the window is cut as well.
func TestHugeResult(t *testing.T) {
	for _, window := range []int64{4_000, 30_000} {
		r := &reader{t: t, summary: func() (model.Response, error) { return model.Response{}, nil }}
		w := newWork(r, func(c *loop.Config, b *bench) {
			c.Budget.Steps, c.Window, c.System = 12, window, "Be brief."
			c.Tools = []loop.Tool{tool{spec("shell", `"command":{"type":"string"}`, "command"), func(_ context.Context, in json.RawMessage) (loop.Result, error) {
				return loop.Result{Text: strings.Repeat("x", 1<<20)}, nil
			}}}
		})
		if rep := w.Run(t.Context(), "Go."); rep.Stop != api.StopSteps && rep.Stop != api.StopLoop {
			t.Fatalf("%+v", rep)
		}
		if int64(r.largest) > 3*window {
			t.Errorf("window %d: the largest request has %d bytes", window, r.largest)
		}
		w.entries(t)
	}
}

// A server whose window is smaller than was said refuses the request; it is made
// again with less.
func TestRefusedForLength(t *testing.T) {
	big := strings.Repeat("0123456789abcdef\n", 2000)
	each(t, `
-- read --
call: view

{"path": "a.txt"}
-- refused --
status: 400
class: invalid_request_error

prompt is too long
-- finish --
last: bytes truncated
call: finish

{"summary": "ok"}
`, func(t *testing.T, m model.Model, _ *requests) {
		w := newWork(m, func(c *loop.Config, b *bench) { b.files["a.txt"] = big; c.Window = 20_000 })
		if rep := w.Run(t.Context(), "Go."); rep.Stop != api.StopFinished || len(of[api.CompactEvent](w.facts)) != 1 {
			t.Errorf("%+v", rep)
		}
		w.entries(t)
	})
	each(t, "-- refused --\nstatus: 400\n\nbad field\n", func(t *testing.T, m model.Model, _ *requests) {
		if rep := newWork(m, nil).Run(t.Context(), "Go."); rep.Stop != api.StopModel || api.KindOf(rep.Err) != api.KindInvalid {
			t.Errorf("%+v", rep)
		}
	})
}

// forgetful is a tool that counts how often its earlier results may have gone.
type forgetful struct {
	loop.Tool
	times int
}

func (f *forgetful) Forget() { f.times++ }

// brisk is a model that writes short summaries by itself.
type brisk struct{ model.Model }

func (b brisk) Generate(ctx context.Context, req model.Request, deltas func(model.Delta)) (model.Response, error) {
	if strings.Contains(req.Messages[len(req.Messages)-1].Text, "Write a summary of your work") {
		return model.Response{Message: model.Message{Role: model.RoleAssistant, Text: summaryText}, Stop: model.StopEnd, Usage: api.Usage{Requests: 1}}, nil
	}
	return b.Model.Generate(ctx, req, deltas)
}

// A tool is told each time that the history is shortened, and never otherwise.
func TestForget(t *testing.T) {
	for _, window := range []int64{24_000, 2_000_000} {
		base, _ := play(t, longWork(100))
		var told *forgetful
		w := newWork(uncounted{brisk{clients["messages"](base)}}, func(cfg *loop.Config, b *bench) {
			b.files["a.txt"], b.files["b.txt"] = strings.Repeat("a line of the file\n", 40), strings.Repeat("another line\n", 60)
			tools := b.tools()
			told = &forgetful{Tool: tools[0]}
			cfg.Tools = append([]loop.Tool{lists(), told}, tools[1:]...)
			cfg.Window = window
		})
		if rep := w.Run(t.Context(), "Go."); rep.Stop != api.StopFinished {
			t.Fatalf("%+v", rep)
		}
		if n := len(of[api.CompactEvent](w.facts)); told.times != n || (n > 0) != (window < 100_000) {
			t.Errorf("window %d: told %d times, shortened %d times", window, told.times, n)
		}
	}
}
