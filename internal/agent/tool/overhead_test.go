package tool_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/agent/loop"
	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/agent/tool"
)

// did is one thing that an agent does: as one command of a shell, and as calls of our tools.
type did struct {
	command string
	ours    []use
	// with is true if it needs nothing of what was done just before: its calls can be in the same answer.
	with bool
}

type use struct {
	tool  string
	input in
}

// trajectory is the repair of a function in a repository of some files, whose test prints much.
func trajectory() []did {
	shell := func(command string) did { return did{command, []use{{"shell", in{"command": command}}}, false} }
	edit := func(path, old, new string) did {
		return did{
			"cat > /tmp/edit.sh <<'EOF'\nset -e\nf=" + path + "\ngrep -qF '" + old + "' \"$f\"\nsed -i 's|" + old + "|" + new + "|' \"$f\"\nEOF\nsh /tmp/edit.sh && grep -n '" + new + "' " + path,
			[]use{{"str_replace", in{"path": path, "old": old, "new": new}}}, false,
		}
	}
	view := func(path string, from, to int) did {
		return did{fmt.Sprintf("nl -ba %s | sed -n '%d,%dp'", path, from, to), []use{{"view", in{"path": path, "start_line": from, "end_line": to}}}, false}
	}
	return []did{
		{"find . -type f | head -100; grep -rnE '^(def|class) ' src | head -200", []use{{"map", in{}}}, false},
		{"grep -rn 'total_of_3' .", []use{{"search", in{"pattern": "total_of_3"}}}, true},
		{"cat src/mod3.py", []use{{"view", in{"path": "src/mod3.py"}}}, false},
		{"cat src/mod4.py", []use{{"view", in{"path": "src/mod4.py"}}}, true},
		{"cat src/mod5.py", []use{{"view", in{"path": "src/mod5.py"}}}, true},
		{"cat tests/test3.txt", []use{{"view", in{"path": "tests/test3.txt"}}}, true},
		shell("sh run.sh"),
		view("src/mod3.py", 100, 160),
		edit("src/mod3.py", "value_120 = 120 - 1", "value_120 = 120 + 1"),
		shell("sh run.sh"),
		{"grep -rn 'value_130' src", []use{{"search", in{"pattern": "value_130", "path": "src"}}}, false},
		view("src/mod3.py", 125, 135),
		edit("src/mod3.py", "value_130 = 130 - 1", "value_130 = 130 + 1"),
		shell("sh run.sh | tail -20"),
		shell("sh run.sh"),
		shell("git diff || true"),
	}
}

func (b *bench) repository() {
	for m := range 8 {
		var text strings.Builder
		for i := range 350 {
			switch {
			case i%35 == 0:
				fmt.Fprintf(&text, "def total_of_%d_%d(values):\n", m, i)
			case m == 3 && (i == 120 || i == 130):
				fmt.Fprintf(&text, "    value_%d = %d - 1\n", i, i)
			default:
				fmt.Fprintf(&text, "    value_%d = %d + 1\n", i, i)
			}
		}
		b.put(fmt.Sprintf("src/mod%d.py", m), text.String())
		b.put(fmt.Sprintf("tests/test%d.txt", m), fmt.Sprintf("total_of_%d is called with each value\n", m))
	}
	b.put("run.sh", "i=0; while [ $i -lt 700 ]; do i=$((i+1)); echo \"test number $i of the suite, which checks a total ... ok\"; done; grep -c -- '- 1' src/mod3.py\n")
}

// weighing is a model that plays a trajectory and weighs what it is sent.
type weighing struct {
	steps           [][]use
	requests, bytes int
	again           int // bytes that the request before had too
	last            int
}

func (*weighing) Name() string { return "weighing" }

func (w *weighing) Generate(_ context.Context, req model.Request, _ func(model.Delta)) (model.Response, error) {
	n := len(req.System)
	for _, t := range req.Tools {
		n += len(t.Name) + len(t.Description) + len(t.Input)
	}
	for _, m := range req.Messages {
		n += len(m.Text) + len(m.CallID)
		for _, c := range m.Calls {
			n += len(c.ID) + len(c.Name) + len(c.Input)
		}
	}
	w.requests++
	w.bytes, w.again, w.last = w.bytes+n, w.again+w.last, n
	step := []use{{"finish", in{"summary": "done"}}}
	if len(w.steps) > 0 {
		step, w.steps = w.steps[0], w.steps[1:]
	}
	msg := model.Message{Role: model.RoleAssistant, Text: "I look at what comes next and continue with the work."}
	for i, u := range step {
		raw, err := json.Marshal(u.input)
		if err != nil {
			return model.Response{}, err
		}
		msg.Calls = append(msg.Calls, model.Call{ID: fmt.Sprintf("c%d_%d", w.requests, i), Name: u.tool, Input: raw})
	}
	return model.Response{Message: msg, Stop: model.StopTools, Usage: api.Usage{Requests: 1}}, nil
}

type nobody struct{}

func (nobody) Emit(context.Context, api.EventType, any) {}

// linear runs commands as a loop with nothing but a shell does: up to 10,000 characters of output whole, of more the first
// and the last 5,000.
type linear struct {
	shell loop.Tool
	b     *bench
}

func (linear) Spec() model.Tool {
	return model.Tool{Name: "shell", Description: "Run a command with bash.", Input: json.RawMessage(`{"type":"object","properties":{"command":{"type":"string"}},"required":["command"]}`)}
}

func (l linear) Call(ctx context.Context, input json.RawMessage) (loop.Result, error) {
	var x struct{ Command string }
	if err := json.Unmarshal(input, &x); err != nil {
		return loop.Result{}, err
	}
	// By a file, since our shell cuts in its own way.
	raw, err := json.Marshal(in{"command": "{ " + x.Command + "\n} > .out 2>&1"})
	if err != nil {
		return loop.Result{}, err
	}
	if res, err := l.shell.Call(ctx, raw); err != nil {
		return res, err
	}
	out := l.b.get(".out")
	if len(out) > 10_000 {
		out = fmt.Sprintf("%s\n[%d characters elided]\n%s", out[:5000], len(out)-10_000, out[len(out)-5000:])
	}
	return loop.Result{Text: "<returncode>0</returncode>\n<output>\n" + out + "</output>"}, nil
}

// What the same work sends to a model, over all requests: with our tools, with our shell alone, and with a loop that has
// only a shell and a linear history. The instructions are the same. The ratios are in docs/performance.md.
func TestOverhead(t *testing.T) {
	run := func(name string, together bool, tools func(b *bench) []loop.Tool, steps func(d did) []use) *weighing {
		b := newBench(t)
		b.repository()
		m := &weighing{}
		for _, d := range trajectory() {
			if n := len(m.steps); together && d.with {
				m.steps[n-1] = append(m.steps[n-1], steps(d)...)
			} else {
				m.steps = append(m.steps, steps(d))
			}
		}
		all := tools(b)
		rep := loop.New(loop.Config{Model: m, System: loop.System, Tools: all, Emit: nobody{}, Reads: tool.Reads()}).Run(t.Context(), "Request:\nFix the totals.\n")
		if rep.Stop != api.StopFinished {
			t.Fatalf("%s: %+v", name, rep)
		}
		if got := b.get("src/mod3.py"); strings.Contains(got, "- 1") {
			t.Errorf("%s: the work was not done", name)
		}
		return m
	}
	bare := run("a shell with a linear history", false, func(b *bench) []loop.Tool {
		return []loop.Tool{linear{b.all["shell"], b}, b.all["finish"]}
	}, func(d did) []use { return []use{{"shell", in{"command": d.command}}} })
	same := run("our tools, the same commands", false, func(b *bench) []loop.Tool { return b.set.All() }, func(d did) []use { return []use{{"shell", in{"command": d.command}}} })
	one := run("our tools, one thing in an answer", false, func(b *bench) []loop.Tool { return b.set.All() }, func(d did) []use { return d.ours })
	ours := run("our tools", true, func(b *bench) []loop.Tool { return b.set.All() }, func(d did) []use { return d.ours })
	// A byte that was sent before costs a tenth where a vendor caches it.
	cost := func(w *weighing) float64 { return float64(w.bytes-w.again) + 0.1*float64(w.again) }
	for name, w := range map[string]*weighing{"a shell with a linear history": bare, "our tools, the same commands": same, "our tools, one thing in an answer": one, "our tools": ours} {
		t.Logf("%s: %d requests, %d bytes, ratio %.2f; with a cache ratio %.2f", name, w.requests, w.bytes,
			float64(w.bytes)/float64(bare.bytes), cost(w)/cost(bare))
	}
	if r := float64(ours.bytes) / float64(bare.bytes); r > 0.95 {
		t.Errorf("our tools send %.2f of what a shell alone does", r)
	}
	if r := float64(same.bytes) / float64(bare.bytes); r > 1.15 {
		t.Errorf("the same commands send %.2f of what a shell alone does", r)
	}
}
