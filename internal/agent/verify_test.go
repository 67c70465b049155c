package agent_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent"
	"hortus.dev/internal/agent/answer"
	"hortus.dev/test/agenttest"
)

// The plan's checks decide beside the exit code: a program that ends with 0 and prints
// something is not verified if one of them fails.
func TestChecks(t *testing.T) {
	three := api.Check{Name: "three lines", Command: `test "$(wc -l <"$OUTPUT")" = 3`}
	made := api.Check{Name: "made.txt", Command: "grep -q made made.txt"}
	for _, c := range []struct {
		name, src string
		checks    []api.Check
		ok        bool
		ran       int
		says      string
	}{
		{"none", "print(1)", nil, true, 0, ""},
		{"all hold", "print('1\\n2\\n3'); open('made.txt','w').write('made')", []api.Check{three, made}, true, 2, ""},
		{"the first fails", "print(1)", []api.Check{three, made}, false, 1, `the check "three lines" failed (exit 1)`},
		{"the second fails", "print('1\\n2\\n3')", []api.Check{three, made}, false, 2, `the check "made.txt" failed (exit 2)`},
		{"no program is run for them after a failure", "import sys; sys.exit(1)", []api.Check{three}, false, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			ex := agent.NewExecutor(agent.ExecutorConfig{Sandboxes: agenttest.NewLocaldir(t), Emit: &events{}})
			res, err := ex.Execute(t.Context(), agent.Pass{N: 1, Of: 1, Artifact: program(c.src), Checks: c.checks})
			if err != nil {
				t.Fatal(err)
			}
			if res.OK != c.ok || len(res.Checks) != c.ran || !strings.Contains(res.Detail, c.says) {
				t.Errorf("ok %v, %+v, %q", res.OK, res.Checks, res.Detail)
			}
			if c.says != "" && (res.Phase != api.PhaseVerify || res.Category != api.CategoryWrongOutput) {
				t.Errorf("phase %s, category %s", res.Phase, res.Category)
			}
		})
	}
}

// A Coder has no say in the checks: what it could write is refused.
func TestCoderHasNoChecks(t *testing.T) {
	m := &scripted{answers: []string{
		`{"language":"python","files":[{"path":"main.py","content":"print(1)\n"}],"run":"python3 main.py","checks":[]}`,
		`{"language":"python","files":[{"path":"main.py","content":"print(1)\n"}],"run":"python3 main.py"}`,
	}}
	plan := api.ExecutionPlan{Language: api.Python, Shell: "bash", Task: "x", Output: api.OutputText, Checks: []api.Check{{Name: "a", Command: "false"}}}
	if _, _, err := agent.NewCoder(m, &events{}, 0, 0).Code(t.Context(), plan); err != nil || len(m.reqs) != 2 {
		t.Errorf("%d requests, %v", len(m.reqs), err)
	}
}

// TestFiles: a program reads the files that came with the request, and what it makes or
// changes is read back.
func TestFiles(t *testing.T) {
	for _, c := range []struct {
		name, program string
		files         map[string]string
		leftOut       []string
	}{
		{"reads alone", "print(open('data.csv').read())", nil, nil},
		{"makes", "open('a.txt', 'w').write('a'); open('data.csv', 'a').write('more'); print(1)", map[string]string{"a.txt": "a", "data.csv": "1,2\nmore"}, nil},
		{"makes no text", "open('a.bin', 'wb').write(b'\\xff\\0'); print(1)", map[string]string{"a.bin": "\xff\x00"}, nil},
		{"makes nothing of its own", "import os; os.makedirs('__pycache__'); open('__pycache__/a', 'w').write('a'); open('.hidden', 'w').write('a'); open('a.pyc', 'w').write('a'); print(1)", nil, nil},
		{"large", "open('a', 'wb').write(b'x' * (1 << 20)); open('b', 'wb').write(b'x' * ((1 << 20) + 1)); print(1)",
			map[string]string{"a": strings.Repeat("x", 1<<20)}, []string{"b: 1048577 bytes"}},
		{"much", "[open(f'{i}', 'wb').write(b'x' * (1 << 20)) for i in range(5)]; print(1)",
			map[string]string{"0": strings.Repeat("x", 1<<20), "1": strings.Repeat("x", 1<<20), "2": strings.Repeat("x", 1<<20), "3": strings.Repeat("x", 1<<20)},
			[]string{"4: total size limit"}},
		{"odd names", "open('a\\nb', 'w').write('a'); open('c', 'w').write('c'); print(1)", map[string]string{"c": "c"}, []string{`"a\nb": invalid file name`}},
		{"links", "import os; os.symlink('/etc/passwd', 'link'); os.mkfifo('pipe'); print(1)", nil, nil},
		{"many", "[open(f'{i:03}', 'w').write('x') for i in range(70)]; print(1)", many(64), []string{"6 more files"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			sandboxes, rec := agenttest.NewLocaldir(t), newRecord(t)
			e := agent.NewExecutor(agent.ExecutorConfig{Sandboxes: sandboxes, Emit: rec, RunTimeout: time.Minute, Inputs: []agent.Input{
				{Path: "data.csv", Read: func() ([]byte, error) { return []byte("1,2\n"), nil }},
			}})
			res, err := e.Execute(t.Context(), agent.Pass{N: 1, Of: 1, Artifact: api.CodeArtifact{Language: api.Python, Run: "python3 main.py",
				Files: []api.File{{Path: "main.py", Content: c.program}}, Output: api.OutputText}})
			if err != nil || !res.OK {
				t.Fatalf("%+v, %v", res, err)
			}
			if len(res.OutputFiles) != len(c.files) {
				t.Errorf("%d files, want %d: %.300v", len(res.OutputFiles), len(c.files), res.OutputFiles)
			}
			for _, f := range res.OutputFiles {
				if want, ok := c.files[f.Path]; !ok || !bytes.Equal(f.Bytes(), []byte(want)) {
					t.Errorf("%s: %.100q", f.Path, f.Bytes())
				}
			}
			if len(res.LeftOut) != len(c.leftOut) {
				t.Errorf("left out: %q", res.LeftOut)
			}
			for i, want := range c.leftOut {
				if i < len(res.LeftOut) && !strings.Contains(res.LeftOut[i], want) {
					t.Errorf("left out: %q, want %q", res.LeftOut[i], want)
				}
			}
		})
	}
}

func many(n int) map[string]string {
	m := map[string]string{}
	for i := range n {
		m[fmt.Sprintf("%03d", i)] = "x"
	}
	return m
}

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
