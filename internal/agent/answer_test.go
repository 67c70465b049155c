package agent_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent"
	"hortus.dev/internal/agent/answer"
	"hortus.dev/test/agenttest"
)

const totalSchema = `{"type":"object","required":["total"],"properties":{"total":{"type":"integer"}}}`

func compiled(t *testing.T, schema string) *answer.Schema {
	s, err := answer.Compile(json.RawMessage(schema))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The stdout of a program is its value, or there is none.
func TestValueOfAProgram(t *testing.T) {
	for _, c := range []struct{ name, src, value, says string }{
		{"valid", `print('{"total": 3}')`, `{"total":3}`, ""},
		{"wrong type", `print('{"total": "3"}')`, "", "not valid"},
		{"more than the value", `print('the total:\n{"total": 3}')`, "", "not JSON"},
		{"cut", `print('{"total": 3', end='')`, "", "not JSON"},
		{"nothing", `pass`, "", "no JSON value"},
		{"too long", `print('{"total": 3, "x": "' + 'x' * (9 << 20) + '"}')`, "", "the maximum is"},
		{"valid, but the program failed", `print('{"total": 3}'); raise SystemExit(1)`, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			ex := agent.NewExecutor(agent.ExecutorConfig{Sandboxes: agenttest.NewLocaldir(t), Emit: &events{}, Schema: compiled(t, totalSchema)})
			a := program(c.src)
			a.Output = api.OutputNone
			res, err := ex.Execute(t.Context(), agent.Pass{N: 1, Of: 1, Artifact: a})
			if err != nil {
				t.Fatal(err)
			}
			if string(res.Value) != c.value || res.OK != (c.value != "") || !strings.Contains(res.Detail, c.says) {
				t.Errorf("ok %v, value %q, %q", res.OK, res.Value, res.Detail)
			}
		})
	}
	t.Run("a check of the plan fails", func(t *testing.T) {
		ex := agent.NewExecutor(agent.ExecutorConfig{Sandboxes: agenttest.NewLocaldir(t), Emit: &events{}, Schema: compiled(t, totalSchema)})
		res, err := ex.Execute(t.Context(), agent.Pass{N: 1, Of: 1, Artifact: program(`print('{"total": 3}')`), Checks: []api.Check{{Name: "no", Command: "false"}}})
		if err != nil || res.OK || res.Value != nil {
			t.Errorf("%+v, %v", res, err)
		}
	})
}

// The roles know the schema, and a program whose output does not fit is repaired.
func TestSchemaReachesTheRoles(t *testing.T) {
	wrong, right := program(`print('{"total": "six"}')`), program(`print('{"total": 6}')`)
	wrong.Output, right.Output = api.OutputJSON, api.OutputJSON
	m := &scripted{answers: []string{
		goodPlan, asJSON(t, wrong),
		asJSON(t, api.Diagnosis{Category: api.CategoryWrongOutput, Cause: "total is a string", Artifact: &right}),
	}}
	rec := newRecord(t)
	p := agent.New(agent.Config{
		Planner: agent.NewPlanner(m, rec), Coder: agent.NewCoder(m, rec, time.Minute, time.Minute),
		Debugger: agent.NewDebugger(m, rec, time.Minute, time.Minute),
		Executor: agent.NewExecutor(agent.ExecutorConfig{Sandboxes: agenttest.NewLocaldir(t), Emit: rec, Schema: compiled(t, totalSchema)}), Emit: rec, Record: rec,
	})
	rep := p.Run(t.Context(), api.PlanRequest{Sentence: "add the numbers", Schema: json.RawMessage(totalSchema)})
	if rep.Outcome != api.OutcomeVerified || len(rep.Attempts) != 2 || string(rep.Value) != `{"total":6}` {
		t.Fatalf("%+v", rep)
	}
	if rep.Plan.Output != api.OutputJSON || string(rep.Plan.Schema) != totalSchema {
		t.Errorf("plan %+v", rep.Plan)
	}
	for i, req := range m.reqs {
		if !strings.Contains(req.Messages[0].Text, `"required"`) {
			t.Errorf("request %d does not have the schema: %s", i, req.Messages[0].Text)
		}
	}
	if why := m.reqs[2].Messages[0].Text; !strings.Contains(why, "not valid for the schema") {
		t.Errorf("the debugger does not know why: %s", why)
	}
}
