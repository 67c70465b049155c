package task_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/task"
)

// A verified task with a schema has a value, and its replay has it again. No other task has one.
func TestSchema(t *testing.T) {
	e, _, _ := newEngine(t)
	schema := json.RawMessage(`{"type":"array","items":{"type":"integer"}}`)
	first := done(t, e, api.CreateTask{Artifact: script("print('[1, 2]')"), Schema: schema})
	if first.Outcome != api.OutcomeVerified || string(first.Value) != "[1,2]" {
		t.Fatalf("%+v", first)
	}
	again := done(t, e, api.CreateTask{Replay: &api.Replay{Task: first.ID, Attempt: 1}})
	if again.Outcome != api.OutcomeVerified || string(again.Value) != "[1,2]" {
		t.Errorf("%+v", again)
	}
	if bad := done(t, e, api.CreateTask{Artifact: script("print('[1, \"2\"]')"), Schema: schema}); bad.Outcome != api.OutcomeNeedsHuman || bad.Value != nil {
		t.Errorf("%+v", bad)
	}
	for _, none := range []json.RawMessage{nil, json.RawMessage("null")} {
		if free := done(t, e, api.CreateTask{Artifact: script("print('[1, 2]')"), Schema: none}); free.Outcome != api.OutcomeVerified || free.Value != nil {
			t.Errorf("%+v", free)
		}
	}
	for name, req := range map[string]api.CreateTask{
		"no schema":            {Artifact: script("print(1)"), Schema: json.RawMessage(`{"type":"nothing"}`)},
		"another document":     {Artifact: script("print(1)"), Schema: json.RawMessage(`{"$ref":"file:///etc/passwd"}`)},
		"preparation":          {Request: "x", Repo: &api.RepoTask{URL: "/x", PrepareOnly: true}, Schema: schema},
		"replay with a schema": {Replay: &api.Replay{Task: first.ID, Attempt: 1}, Schema: schema},
	} {
		if _, err := e.Create(t.Context(), req); api.KindOf(err) != api.KindInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A task that is canceled while its program prints a value has none.
func TestCanceledHasNoValue(t *testing.T) {
	e, mem, _ := newEngine(t)
	created, err := e.Create(t.Context(), api.CreateTask{
		Artifact: script("import time\nprint('{\"total\": 1}', flush=True)\ntime.sleep(60)"), Schema: json.RawMessage(`{"type":"object"}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; !slices.ContainsFunc(mem.of(created.ID), func(e api.Event) bool { return e.Type == api.EventOutput }); n++ {
		mem.until(t, created.ID, n)
	}
	got, err := e.Cancel(t.Context(), created.ID)
	if err != nil || got.Outcome != api.OutcomeCanceled || got.Value != nil || got.Receipt == nil || got.Receipt.ProcessesLeft != 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

// Without an interpreter nothing is written and nothing is made.
func TestNoInterpreter(t *testing.T) {
	node := api.Tool{Name: "node", Present: true}
	for _, c := range []struct {
		name    string
		tools   []api.Tool
		err     error
		outcome api.Outcome
		says    []string
	}{
		{"none", []api.Tool{{Name: "python3"}}, nil, api.OutcomeFailed, []string{"python3 is not installed", "apt install python3"}},
		{"another", []api.Tool{{Name: "python3"}, node}, nil, api.OutcomeFailed, []string{"python3 is not installed", "Available languages: JavaScript, TypeScript."}},
		{"there", []api.Tool{{Name: "python3", Present: true}}, nil, api.OutcomeVerified, nil},
		{"unknown", nil, errors.New("the tree is torn"), api.OutcomeFailed, []string{"the tree is torn"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, mem, sandboxes := newEngine(t, func(cfg *task.Config) {
				cfg.Tools = func(context.Context, api.CreateSandbox) ([]api.Tool, error) { return c.tools, c.err }
			})
			got := done(t, e, api.CreateTask{Request: "print the first 5 primes"})
			mem.oneFinish(t, got.ID)
			if got.Outcome != c.outcome {
				t.Fatalf("%+v", got)
			}
			if c.outcome == api.OutcomeVerified {
				return
			}
			if got.Error == nil || len(got.Attempts) != 0 || sandboxes.Created.Load() != 0 {
				t.Fatalf("%+v, %d sandboxes", got, sandboxes.Created.Load())
			}
			for _, s := range c.says {
				if !strings.Contains(got.Error.Message+" "+got.Error.Hint, s) {
					t.Errorf("%q is not in %+v", s, got.Error)
				}
			}
		})
	}
}

// TestGivenFiles: the files of a request are in the program's directory in every attempt, in
// a replay and after a reply, and no record has their content.
func TestGivenFiles(t *testing.T) {
	e, mem, _ := newEngine(t)
	const secret = "7 of hearts"
	files := []api.InputFile{{Path: "data/card.txt", Content: []byte("first\n" + strings.Repeat("x", 2000) + secret)}, {Path: "a.bin", Content: []byte{0, 255}}}
	// The first attempt fails and spoils the file; the second one has it as it was.
	const program = "Run this Python:\ntext = open('data/card.txt').read()\nopen('data/card.txt', 'w').write('spoiled')\nprint(text[-11:], len(open('a.bin', 'rb').read()))\nmath.pi"
	got := done(t, e, api.CreateTask{Request: program, Files: files})
	if got.Outcome != api.OutcomeVerified || len(got.Attempts) != 2 || got.Attempts[1].Result.Stdout != secret+" 2\n" {
		t.Fatalf("%+v", got)
	}
	again := done(t, e, api.CreateTask{Replay: &api.Replay{Task: got.ID, Attempt: 2}})
	if again.Outcome != api.OutcomeVerified || again.Attempts[0].Result.Stdout != secret+" 2\n" {
		t.Errorf("replay: %+v", again)
	}
	for _, task := range []api.Task{got, again} {
		b, err := json.Marshal([]any{task.Create, task.Plan, mem.of(task.ID)[0]})
		if err != nil || bytes.Contains(b, []byte(secret)) || task.Create.Files[0].Content != nil {
			t.Errorf("%v: the record has the content: %s", err, b)
		}
		if f := task.Create.Files; f[0].Path != "data/card.txt" || f[0].Size != 2006+int64(len(secret)) || !strings.HasPrefix(f[0].Head, "first\nxxx") ||
			len(f[0].Head) > api.MaxInputHead || f[1].Head != "" || f[1].Size != 2 {
			t.Errorf("%+v", f)
		}
	}
	if got.Plan == nil || len(got.Plan.Inputs) != 2 {
		t.Errorf("plan: %+v", got.Plan)
	}
	if declined := done(t, e, api.CreateTask{Request: "print the first 5 prime numbers", Files: files}); declined.Outcome != api.OutcomeDeclined ||
		!strings.Contains(declined.Error.Error(), "reads a given file") {
		t.Errorf("a model that would ignore the files: %+v", declined)
	}
}

func TestGivenFilesRefused(t *testing.T) {
	e, _, _ := newEngine(t)
	file := func(path string, n int) api.InputFile {
		return api.InputFile{Path: path, Content: bytes.Repeat([]byte("x"), n)}
	}
	for name, c := range map[string]struct {
		req  api.CreateTask
		says string
	}{
		"outside":           {api.CreateTask{Request: "x", Files: []api.InputFile{file("../a", 1)}}, "element .."},
		"absolute":          {api.CreateTask{Request: "x", Files: []api.InputFile{file("/etc/a", 1)}}, "absolute"},
		"control character": {api.CreateTask{Request: "x", Files: []api.InputFile{file("a\nb", 1)}}, "control character"},
		"twice":             {api.CreateTask{Request: "x", Files: []api.InputFile{file("a", 1), file("a", 1)}}, "conflict"},
		"file as folder":    {api.CreateTask{Request: "x", Files: []api.InputFile{file("a", 1), file("a/b", 1)}}, "conflict"},
		"program's":         {api.CreateTask{Artifact: script("print(1)"), Files: []api.InputFile{file("main.py", 1)}}, "main.py conflict"},
		"too much":          {api.CreateTask{Request: "x", Files: []api.InputFile{file("a", api.MaxInputBytes), file("b", 1)}}, "bytes; the maximum"},
		"too many":          {api.CreateTask{Request: "x", Files: make([]api.InputFile, api.MaxInputFiles+1)}, "maximum is 32"},
		"replay":            {api.CreateTask{Replay: &api.Replay{Task: api.NewTaskID(), Attempt: 1}, Files: []api.InputFile{file("a", 1)}}, "cannot be set"},
	} {
		if _, err := e.Create(t.Context(), c.req); api.KindOf(err) != api.KindInvalid || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v; want %q", name, err, c.says)
		}
	}
}
