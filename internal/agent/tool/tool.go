package tool

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"

	"hortus.dev/api"
	"hortus.dev/internal/agent/loop"
	"hortus.dev/internal/agent/model"
)

// Sandbox is the sandbox as the tools see it. Run and ReadFile are called by several
// goroutines at the same time, everything else by one; jobs continue beside them.
type Sandbox interface {
	// Run runs a command and passes on its output as it comes; p is valid during
	// the call only. It returns when the command has ended, by itself, by its
	// timeout or by a limit; an error says that the end was not seen, or that the
	// command could not be started (KindInvalid, KindNotFound, KindDenied).
	Run(ctx context.Context, req api.ExecRequest, output func(stream string, p []byte) error) (api.Exec, error)
	// Start runs a command in the background.
	Start(ctx context.Context, req api.ExecRequest) (Job, error)
	// ReadFile reads a regular file. It fails with KindNotFound, with KindInvalid
	// for what is no regular file, and with KindExhausted above max bytes.
	ReadFile(ctx context.Context, path string, max int64) ([]byte, error)
	// WriteFile makes or overwrites a file, with its parent folders. The mode of
	// a file that is there stays.
	WriteFile(ctx context.Context, path string, content []byte, executable bool) error
}

// Job is a command in the background.
type Job interface {
	// Output returns at most max bytes of what came after offset, the offset to
	// continue from, and whether the command has ended and p reaches its last byte. Where
	// next-len(p) is above offset, what lies between is no longer kept.
	Output(offset int64, max int) (p []byte, next int64, ended bool)
	// Exec returns the record as it stands.
	Exec() api.Exec
	// Wait waits until the command has ended, or fails with ctx's error.
	Wait(ctx context.Context) error
	// Kill ends the command and what is in its process group, and waits for it.
	Kill(ctx context.Context) error
	// Close kills the command and frees what is kept of it. It is idempotent.
	Close()
}

// Config is what tools work on.
type Config struct {
	Sandbox Sandbox
	// Keep takes whole outputs; nil keeps none, and what is cut is lost.
	Keep OutputStore
	// Dir is the workspace inside the sandbox, where relative paths begin; empty
	// means /workspace.
	Dir string
	// Value checks the structured result that finish takes, and returns it as it is kept. An error is for the
	// model. Nil means that there is none.
	Value func(json.RawMessage) (json.RawMessage, error)
}

// Set is the tools of one agent. Calls of [Reads] may be made by several goroutines at
// the same time; everything else is for one.
type Set struct {
	cfg     Config
	seen    viewLog
	printed printLog
	shown   atomic.Int64 // images
	jobs    []*job
	jobNum  int
}

// New makes a set. Close ends it.
func New(cfg Config) *Set {
	cfg.Dir = cmp.Or(cfg.Dir, "/workspace")
	return &Set{cfg: cfg}
}

// All lists the tools, always in the same order. They are for one history: view does not show twice what is in it.
func (s *Set) All() []loop.Tool {
	return append(Working(s), todo(), finish(s.cfg.Value))
}

// Working lists the tools of a set without todo and finish, for an agent that has its own.
func Working(s *Set) []loop.Tool {
	return []loop.Tool{
		s.shell(), s.job(), s.view(true), s.create(), s.strReplace(), s.insert(), s.search(), s.find(), s.mapping(), s.outline(),
	}
}

// Reads names the tools whose calls change nothing, so that they may run side by side.
// Every other tool changes something, or waits for what does.
func Reads() []string { return []string{"view", "search", "find", "map", "outline"} }

// Reading makes the tools that [Reads] names, for any number of histories. They have nothing to close.
func Reading(cfg Config) []loop.Tool {
	s := New(cfg)
	return []loop.Tool{s.view(false), s.search(), s.find(), s.mapping(), s.outline()}
}

// Again names the tools whose calls may be made again if nobody knows how they ended: those
// that read, and those whose result is all that they do.
func Again() []string { return append(Reads(), "todo", "finish") }

// Close kills what still runs in the background. It is idempotent.
func (s *Set) Close(context.Context) error {
	for _, j := range s.jobs {
		j.Close()
	}
	s.jobs = nil
	return nil
}

// tool is one tool: its words and what it does.
type tool struct {
	name  string
	about string
	input fields
	run   func(ctx context.Context, in args) (loop.Result, error)
	// forget is nil for a tool that does not rely on its earlier results.
	forget func()
}

// Forget implements loop.Forgetter.
func (t *tool) Forget() {
	if t.forget != nil {
		t.forget()
	}
}

// Spec implements loop.Tool.
func (t *tool) Spec() model.Tool {
	return model.Tool{Name: t.name, Description: t.about, Input: t.input.schema()}
}

// Call implements loop.Tool.
func (t *tool) Call(ctx context.Context, input json.RawMessage) (loop.Result, error) {
	if err := ctx.Err(); err != nil {
		return loop.Result{}, err
	}
	in, why := t.input.decode(input)
	if why != "" {
		return failed(t.name+": "+clip(why, 100), "Nothing was done: %s", why), nil
	}
	res, err := t.run(ctx, in)
	if err == nil {
		return res, nil
	}
	if ctx.Err() != nil {
		return res, ctx.Err()
	}
	if ends(err) {
		return res, err
	}
	text := err.Error()
	if hint := api.HintOf(err); hint != "" {
		text += ". " + hint
	}
	return failed(t.name+": "+clip(err.Error(), 100), "%s", clip(visible(text), 2000)), nil
}

// ends reports whether no tool can continue after err.
func ends(err error) bool {
	switch api.KindOf(err) {
	case api.KindUnavailable, api.KindTimeout, api.KindCanceled, api.KindConflict, api.KindUnauthenticated:
		return true
	}
	return false
}

// failed is the answer to what the model can repair.
func failed(short, format string, a ...any) loop.Result {
	return loop.Result{Text: fmt.Sprintf(format, a...), Failed: true, Short: visible(short)}
}

func teach(format string, a ...any) error { return api.Errorf(api.KindInvalid, format, a...) }

const finishAbout = `End your work. Make this your last call.`

// maxSummary bounds what is kept of a model's own word, in bytes.
const maxSummary = 16 << 10

// valueField is the argument of finish for tasks with a structured result.
var valueField = field{name: "value", doc: "The structured result, a JSON value that is valid for the JSON Schema of the task. Omit it only with blocked."}

// finish makes the tool. With value it demands a structured result.
func finish(value func(json.RawMessage) (json.RawMessage, error)) *tool {
	t := &tool{name: "finish", about: finishAbout, input: fields{
		{name: "summary", kind: "string", need: true, doc: "A commit subject. Then why, and how you tested it."},
		{name: "blocked", kind: "string", doc: "Why you cannot complete the request. Omit it otherwise."},
	}}
	if value != nil {
		t.input = append(t.input, valueField)
	}
	t.run = func(_ context.Context, in args) (loop.Result, error) {
		summary := strings.TrimSpace(in.str("summary"))
		blocked := strings.TrimSpace(in.str("blocked"))
		if summary == "" && blocked == "" {
			return loop.Result{}, teach("the summary is empty; describe your changes in a sentence")
		}
		end := &loop.Finish{Summary: clip(summary, maxSummary), Blocked: clip(blocked, maxSummary)}
		if value != nil {
			var err error
			if end.Value, err = result(in, blocked != "", value); err != nil {
				return loop.Result{}, err
			}
		}
		short := "finished: " + oneLine(summary, 100)
		if blocked != "" {
			short = "blocked: " + oneLine(blocked, 100)
		}
		return loop.Result{Text: "Your work has ended.", Short: short, Finish: end}, nil
	}
	return t
}

// result returns the structured result. A model may write the value as a string with JSON.
func result(in args, blocked bool, check func(json.RawMessage) (json.RawMessage, error)) (json.RawMessage, error) {
	raw, ok := in["value"].(json.RawMessage)
	switch {
	case !ok && blocked:
		return nil, nil
	case !ok:
		return nil, teach("the field value is missing; it must be valid for the JSON Schema of the task")
	}
	value, err := check(raw)
	var text string
	if err != nil && json.Unmarshal(raw, &text) == nil {
		if inner, err := check(json.RawMessage(text)); err == nil {
			return inner, nil
		}
	}
	if err != nil {
		return nil, teach("your work has not ended: the field value is not accepted: %v. Correct it and call finish again", err)
	}
	return value, nil
}

const todoAbout = `Write your todo list for work with several steps. Each call replaces it.`

func todo() *tool {
	states := []string{loop.TodoPending, loop.TodoActive, loop.TodoDone}
	return &tool{name: "todo", about: todoAbout, input: fields{
		{name: "items", kind: "array", need: true, max: loop.MaxTodo, doc: "All items, in order.", of: fields{
			{name: "text", kind: "string", need: true},
			{name: "state", kind: "string", need: true, enum: states},
		}},
	}, run: func(_ context.Context, in args) (loop.Result, error) {
		count := map[string]int{}
		items, doing := []api.TodoItem{}, ""
		for i, x := range in.list("items") {
			text := visible(strings.Join(strings.Fields(x.str("text")), " "))
			switch {
			case text == "":
				return loop.Result{}, teach("the text of item %d is empty", i+1)
			case len(text) > loop.MaxTodoText:
				return loop.Result{}, teach("the text of item %d has %d bytes; the maximum is %d", i+1, len(text), loop.MaxTodoText)
			}
			state := x.str("state")
			if count[state]++; state == loop.TodoActive && doing == "" {
				doing = ": " + text
			}
			items = append(items, api.TodoItem{Text: text, State: state})
		}
		done := count[loop.TodoDone]
		return loop.Result{
			Text:  fmt.Sprintf("The list has %d items: %d done, %d active, %d pending.", len(items), done, count[loop.TodoActive], count[loop.TodoPending]),
			Short: fmt.Sprintf("todo %d of %d done%s", done, len(items), clip(doing, 100)), Todo: items,
		}, nil
	}}
}
