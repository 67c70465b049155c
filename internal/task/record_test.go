package task_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/agent/model/offline"
	"hortus.dev/internal/agent/model/replay"
	"hortus.dev/internal/task"
	"hortus.dev/test/agenttest"
)

// file is a recording on the disk.
type file struct {
	*replay.Recorder
	f *os.File
}

func record(path string, models map[string]string) (task.Recording, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, api.Errorf(api.KindInvalid, "%w", err)
	}
	rec, err := replay.NewRecorder(replay.RecorderConfig{W: f, Models: models})
	return file{rec, f}, err
}

func (f file) Close() error   { return f.f.Close() }
func (f file) Discard() error { return errors.Join(f.f.Close(), os.Remove(f.f.Name())) }

// recording lets an engine record.
func recording(cfg *task.Config) { cfg.Record = record }

func player(path string) (model.Model, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, api.Errorf(api.KindInvalid, "%w", err)
	}
	defer f.Close()
	rec, err := replay.Parse(f)
	if err != nil {
		return nil, err
	}
	return replay.NewPlayer(replay.PlayerConfig{Recording: rec, Name: replay.Prefix + path}), nil
}

// answers is a model that gives what it was told to, in order.
type answers struct {
	name string
	list []any // a value to encode, a text, or an error
}

func (a *answers) Name() string { return a.name }

func (a *answers) Generate(_ context.Context, _ model.Request, deltas func(model.Delta)) (model.Response, error) {
	resp := model.Response{Stop: model.StopEnd, Usage: api.Usage{Requests: 1, InputTokens: 10, OutputTokens: 5, CostUSD: 0.5}}
	if len(a.list) == 0 {
		return resp, errors.New(a.name + " has no answer left")
	}
	next := a.list[0]
	a.list = a.list[1:]
	text := ""
	switch v := next.(type) {
	case error:
		return resp, v
	case string:
		text = v
	default:
		b, err := json.Marshal(v)
		if err != nil {
			return resp, err
		}
		text = string(b)
	}
	if deltas != nil {
		deltas(model.Delta{Text: text[:len(text)/2]})
		deltas(model.Delta{Text: text[len(text)/2:]})
	}
	resp.Message = model.Message{Role: model.RoleAssistant, Text: text}
	return resp, nil
}

var plan = api.ExecutionPlan{Language: api.Python, Shell: "bash", Task: "print a number", Output: api.OutputText}

func fix(src string) api.Diagnosis {
	return api.Diagnosis{Category: api.CategoryName, Cause: "a cause", Artifact: script(src)}
}

// repeated is the part of a task that its replay must give again, byte for byte.
func repeated(t *testing.T, e *task.Engine, got api.Task) string {
	t.Helper()
	got.Error, got.Usage = nil, api.Usage{}
	var out []any
	for _, a := range got.Attempts {
		for _, stream := range []string{"stdout", "stderr"} {
			r, err := e.Output(t.Context(), got.ID, a.N, stream)
			if err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(r)
			r.Close()
			if err != nil {
				t.Fatal(err)
			}
			if stream == "stdout" {
				out = append(out, string(b))
			}
		}
		out = append(out, a.Artifact, a.Diagnosis, a.Result.OK, a.Result.Category, a.Result.Stdout)
	}
	b, err := json.Marshal([]any{got.Outcome, got.Plan, got.Diagnosis, got.Question, out})
	if err != nil {
		t.Fatal(err)
	}
	// A message may name the model, which is said to be replayed.
	return strings.ReplaceAll(string(b), "model "+replay.Prefix, "model ")
}

// moves are the escalations of a task, without the models' names.
func moves(mem *memory, id api.TaskID) (out []string) {
	for _, e := range mem.of(id) {
		var x api.EscalationEvent
		if e.Type == api.EventEscalation && json.Unmarshal(e.Data, &x) == nil {
			out = append(out, fmt.Sprintf("%s@%d %s", x.Role, x.Attempt, x.Why))
		}
	}
	return out
}

func TestAWholeRunReplaysFromItsRecording(t *testing.T) {
	off, err := offline.New()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		req     api.CreateTask
		models  func() []model.Model
		outcome api.Outcome
		passes  int
		moves   []string
	}{
		{
			name: "offline", req: api.CreateTask{Request: "print the first 5 primes"},
			models: func() []model.Model { return []model.Model{off} }, outcome: api.OutcomeVerified, passes: 1,
		},
		{
			name: "offline, repaired", req: api.CreateTask{Request: "Run this Python: print(math.sqrt(9))"},
			models: func() []model.Model { return []model.Model{off} }, outcome: api.OutcomeVerified, passes: 2,
		},
		{
			name: "offline, declined", req: api.CreateTask{Request: "launch a rocket"},
			models: func() []model.Model { return []model.Model{off} }, outcome: api.OutcomeDeclined,
		},
		{
			name: "a model that has to be corrected", req: api.CreateTask{Request: "please print seven", Model: "one"},
			models: func() []model.Model {
				return []model.Model{&answers{"one", []any{"Sure!", plan, "{", script("import sys\nprint(object(), file=sys.stderr)\nnothing"), "no", "no", "no"}}}
			},
			outcome: api.OutcomeNeedsHuman, passes: 1,
		},
		{
			name: "a model that cannot be reached in the end",
			req:  api.CreateTask{Request: "please print seven", Model: "one"},
			models: func() []model.Model {
				return []model.Model{&answers{"one", []any{plan, api.Errorf(api.KindUnavailable, "gone")}}}
			},
			outcome: api.OutcomeFailed,
		},
		{
			name: "from model to model",
			req:  api.CreateTask{Request: "please print seven", Models: api.Models{Planner: "small", Coder: "middle", Large: "big"}},
			models: func() []model.Model {
				return []model.Model{
					&answers{"small", []any{api.Errorf(api.KindDeclined, "too much for me")}},
					&answers{"middle", []any{script("nothing"), fix("nothing_else")}},
					&answers{"big", []any{plan, fix("print(7)")}},
				}
			},
			outcome: api.OutcomeVerified, passes: 3,
			moves: []string{"planner@0 the model declined the request", "debugger@2 the failure undefined_name occurred again"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			mem, sandboxes := newMemory(), agenttest.NewLocaldir(t)
			path := filepath.Join(t.TempDir(), "r.jsonl")
			c.req.Record = path
			e := engineWith(t, mem, sandboxes, c.models(), recording)
			first := done(t, e, c.req)
			if first.Outcome != c.outcome || len(first.Attempts) != c.passes || !slices.Equal(moves(mem, first.ID), c.moves) {
				t.Fatalf("%+v\n%v", first, moves(mem, first.ID))
			}
			// Twice: a recording is not used up. The second engine has no model.
			for range 2 {
				offline := engineWith(t, mem, sandboxes, nil)
				again := done(t, offline, api.CreateTask{Request: c.req.Request, Model: replay.Prefix + path})
				if a, b := repeated(t, offline, again), repeated(t, e, first); a != b {
					t.Errorf("the replay gives\n%s\nthe run gave\n%s\n%+v", a, b, again.Error)
				}
				if again.Usage != first.Usage || !slices.Equal(moves(mem, again.ID), c.moves) {
					t.Errorf("usage %+v, want %+v; moves %v", again.Usage, first.Usage, moves(mem, again.ID))
				}
				if first.Error != nil && (again.Error == nil || again.Error.Message != first.Error.Message) {
					t.Errorf("error %v, want %v", again.Error, first.Error)
				}
				want := api.Models{}
				if n := first.Models; n != want {
					want = api.Models{Planner: replay.Prefix + n.Planner, Coder: replay.Prefix + n.Coder, Debugger: replay.Prefix + n.Debugger, Large: replay.Prefix + n.Large}
				}
				if again.Models != want {
					t.Errorf("models %+v, want %+v", again.Models, want)
				}
				if again.Model != replay.Prefix+first.Model {
					t.Errorf("model %q", again.Model)
				}
			}
			other := done(t, engineWith(t, mem, sandboxes, nil), api.CreateTask{Request: c.req.Request + " and more", Model: replay.Prefix + path})
			if other.Outcome != api.OutcomeFailed || other.Error == nil || other.Error.Kind != api.KindNotFound {
				t.Errorf("another request gives %s %v", other.Outcome, other.Error)
			}
		})
	}
}

func TestTheRowSaysWhichModelsWereAsked(t *testing.T) {
	mem, sandboxes := newMemory(), agenttest.NewLocaldir(t)
	e := engineWith(t, mem, sandboxes, []model.Model{
		&answers{"small", []any{"?", plan}}, &answers{"middle", []any{script("nothing"), fix("nothing_else")}}, &answers{"big", []any{fix("print(7)")}}})
	got := done(t, e, api.CreateTask{Request: "please print seven", Model: "middle", Models: api.Models{Planner: "small", Large: "big"}})
	if got.Model != "middle" || got.Models != (api.Models{Planner: "small", Coder: "middle", Debugger: "middle", Large: "big"}) {
		t.Errorf("models %q %+v", got.Model, got.Models)
	}
	one := api.Usage{Requests: 1, InputTokens: 10, OutputTokens: 5, CostUSD: 0.5}
	for i := range got.Calls {
		got.Calls[i].MS = 0
	}
	want := []api.RoleCalls{
		{Role: "planner", Model: "small", Calls: 2, Usage: one.Add(one)}, {Role: "coder", Model: "middle", Calls: 1, Usage: one},
		{Role: "debugger", Model: "middle", Calls: 1, Usage: one}, {Role: "debugger", Model: "big", Calls: 1, Usage: one},
	}
	if !reflect.DeepEqual(got.Calls, want) {
		t.Errorf("calls %+v", got.Calls)
	}
}

func TestRecordIsRefused(t *testing.T) {
	e, mem, sandboxes := newEngine(t)
	there := filepath.Join(t.TempDir(), "there")
	if err := os.WriteFile(there, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		e    *task.Engine
		req  api.CreateTask
		kind api.Kind
	}{
		"relative":              {e, api.CreateTask{Request: "x", Record: "r.jsonl"}, api.KindInvalid},
		"NUL":                   {e, api.CreateTask{Request: "x", Record: "/a\x00b"}, api.KindInvalid},
		"of an artifact":        {e, api.CreateTask{Artifact: script("1"), Record: there + "2"}, api.KindInvalid},
		"models of an artifact": {e, api.CreateTask{Artifact: script("1"), Models: api.Models{Large: "offline"}}, api.KindInvalid},
		"there already":         {e, api.CreateTask{Request: "x", Record: there}, api.KindInvalid},
		"small program":         {e, api.CreateTask{Request: "x", Models: api.Models{Small: "offline"}}, api.KindInvalid},
		"unknown large":         {e, api.CreateTask{Request: "x", Models: api.Models{Large: "oracle"}, Record: there + "3"}, api.KindInvalid},
		"no recording":          {e, api.CreateTask{Request: "x", Model: "replay:" + there}, api.KindInvalid},
		"none can be made":      {engineWith(t, mem, sandboxes, []model.Model{&answers{name: "offline"}}), api.CreateTask{Request: "x", Record: there + "4"}, api.KindUnsupported},
	} {
		if _, err := c.e.Create(t.Context(), c.req); api.KindOf(err) != c.kind {
			t.Errorf("%s: %v", name, err)
		}
	}
	if b, err := os.ReadFile(there); err != nil || string(b) != "mine" {
		t.Errorf("%q %v", b, err)
	}
	if more, err := filepath.Glob(there + "?"); err != nil || len(more) != 0 {
		t.Errorf("left %v %v", more, err)
	}
}

// full is a store that takes no new task.
type full struct{ *memory }

func (full) InsertTask(context.Context, api.Task) error {
	return api.Errorf(api.KindExhausted, "the disk is full")
}

// A task that never was leaves no recording.
func TestARecordingOfNothingIsRemoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.jsonl")
	mem := newMemory()
	e := engineWith(t, mem, agenttest.NewLocaldir(t), []model.Model{&answers{name: "offline"}}, recording, func(cfg *task.Config) { cfg.Store = full{mem} })
	if _, err := e.Create(t.Context(), api.CreateTask{Request: "x", Record: path}); api.KindOf(err) != api.KindExhausted {
		t.Fatal(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}
