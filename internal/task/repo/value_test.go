package repo_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"hortus.dev/api"
)

// with is finish with a value.
func with(value any) call {
	return call{"finish", map[string]any{"summary": "done", "value": value}}
}

// A task with a schema is verified only with a valid value, which is told to the model; no other end has one.
func TestValue(t *testing.T) {
	good := map[string]any{"fixed": 1}
	for _, c := range []struct {
		name    string
		calls   []call
		req     api.RepoTask
		plain   bool // without a schema
		outcome api.Outcome
		rounds  int
		value   string
		asks    string // of some request to the model
		says    string // part of the diagnosis
	}{
		{name: "valid", calls: []call{sh(mend), with(good)}, outcome: api.OutcomeVerified, rounds: 1, value: `{"fixed":1}`, asks: `valid for this JSON Schema:`},
		{name: "invalid, then valid", calls: []call{sh(mend), with(map[string]any{"fixed": "1"}), with(good)}, outcome: api.OutcomeVerified, rounds: 1, value: `{"fixed":1}`, asks: "your work has not ended: the field value is not accepted"},
		{name: "missing, then valid", calls: []call{sh(mend), finish(), with(good)}, outcome: api.OutcomeVerified, rounds: 1, value: `{"fixed":1}`, asks: "the field value is missing"},
		{name: "in a string", calls: []call{sh(mend), with(`{"fixed": 2}`)}, outcome: api.OutcomeVerified, rounds: 1, value: `{"fixed":2}`},
		{name: "of the second round", calls: []call{sh("echo x > y"), with(good), sh(mend), with(map[string]any{"fixed": 2})}, outcome: api.OutcomeVerified, rounds: 2, value: `{"fixed":2}`},
		{name: "the gate fails", calls: []call{sh("echo x > y"), with(good)}, req: api.RepoTask{Rounds: -1}, outcome: api.OutcomeNeedsHuman, rounds: 1, says: "gate fails"},
		{name: "out of steps", calls: []call{sh(mend), sh("true"), sh("pwd")}, req: api.RepoTask{Budget: api.Budget{Steps: 2}}, outcome: api.OutcomeNeedsHuman, rounds: 1, says: "step_budget"},
		{name: "only a word", calls: []call{sh(mend), {}, {}, with(good)}, outcome: api.OutcomeVerified, rounds: 2, value: `{"fixed":1}`, asks: "The gate passed, but the result has no value."},
		{name: "only words", calls: []call{sh(mend), {}, {}}, req: api.RepoTask{Rounds: -1}, outcome: api.OutcomeNeedsHuman, rounds: 1, says: "gave no value"},
		{name: "blocked", calls: []call{{"finish", map[string]any{"summary": "no", "blocked": "I need a key"}}}, outcome: api.OutcomeNeedsHuman, rounds: 1, says: "I need a key"},
		{name: "no schema", plain: true, calls: []call{sh(mend), with(good), finish()}, outcome: api.OutcomeVerified, rounds: 1, asks: `unknown field "value"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, nowhere{})
			if !c.plain {
				b.schema = json.RawMessage(`{"type":"object","required":["fixed"],"properties":{"fixed":{"type":"integer"}}}`)
			}
			c.req.URL = makeRepo(t, sum)
			m := &scripted{calls: c.calls}
			end, _ := b.do(t.Context(), m, c.req)
			if end.Outcome != c.outcome || len(end.Result.Rounds) != c.rounds || string(end.Value) != c.value || !strings.Contains(end.Diagnosis, c.says) {
				t.Errorf("%s after %d rounds with %s: %s %v", end.Outcome, len(end.Result.Rounds), end.Value, end.Diagnosis, end.Error)
			}
			asked := false
			for _, req := range m.asked {
				for _, x := range req.Messages {
					asked = asked || strings.Contains(x.Text, c.asks)
				}
			}
			if !asked {
				t.Errorf("no request has %q", c.asks)
			}
		})
	}
}

// A task that is canceled after its agent gave a value has none.
func TestCanceledHasNoValue(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	b := newBench(t, nowhere{})
	b.schema = json.RawMessage(`{"type":"object"}`)
	b.facts.after = func(e api.RepoStepEvent) {
		if e.Step == "collect" {
			cancel()
		}
	}
	end, _ := b.do(ctx, &scripted{calls: []call{sh(mend), with(map[string]any{})}}, api.RepoTask{URL: makeRepo(t, sum)})
	if end.Outcome != api.OutcomeCanceled || end.Value != nil || end.Receipt == nil || end.Receipt.ProcessesLeft != 0 {
		t.Errorf("%+v", end)
	}
}
