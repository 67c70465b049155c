package task_test

import (
	"encoding/json"
	"slices"
	"testing"

	"hortus.dev/api"
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
