package agent_test

import (
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/agent"
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
