package task

import (
	"context"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/agent/observe"
)

func TestAdviceOfTasks(t *testing.T) {
	attempt := func(res api.ExecutionResult) api.Attempt {
		return api.Attempt{Artifact: api.CodeArtifact{Language: api.Python}, Result: &res}
	}
	missed := attempt(api.ExecutionResult{Phase: api.PhaseRun, Category: api.CategoryImport, Missing: "pandas"})
	install := attempt(api.ExecutionResult{Phase: api.PhaseInstall, Category: api.CategoryInstall, Stderr: "error: externally-managed-environment\n"})
	gate := func(passed bool, output string) *api.Gate { return &api.Gate{Passed: passed, Output: output} }
	const noPytest = "/usr/bin/python3: No module named pytest\n"
	for _, c := range []struct {
		name string
		task api.Task
		want observe.Lack
	}{
		{"an import", api.Task{Attempts: []api.Attempt{missed}}, observe.Lack{Language: api.Python, Name: "pandas"}},
		{"an import, then its installation", api.Task{Attempts: []api.Attempt{missed, install}}, observe.Lack{Language: api.Python, Name: "pandas"}},
		{"an installation", api.Task{Attempts: []api.Attempt{install}}, observe.Lack{Installer: "pip"}},
		{"a program that calls pip", api.Task{Attempts: []api.Attempt{attempt(api.ExecutionResult{Phase: api.PhaseRun, Category: api.CategoryUnknown, Stderr: "error: externally-managed-environment\n"})}}, observe.Lack{Installer: "pip"}},
		{"a command", api.Task{Attempts: []api.Attempt{attempt(api.ExecutionResult{Phase: api.PhaseRun, Category: api.CategoryCommand, Missing: "cargo"})}}, observe.Lack{Name: "cargo"}},
		{"an import, then something else", api.Task{Attempts: []api.Attempt{missed, attempt(api.ExecutionResult{Phase: api.PhaseRun, Category: api.CategoryType, Stderr: "TypeError: no\n"})}}, observe.Lack{}},
		{"nothing ran", api.Task{}, observe.Lack{}},
		{"the gate before", api.Task{Repo: &api.RepoResult{Before: gate(false, noPytest), Rounds: []api.Round{{N: 1}}}}, observe.Lack{Language: api.Python, Name: "pytest"}},
		{"the gate of a round", api.Task{Repo: &api.RepoResult{Before: gate(true, ""), Rounds: []api.Round{{N: 1, Gate: gate(false, "sh: 1: jq: not found\n")}, {N: 2}}}}, observe.Lack{Name: "jq"}},
		{"a gate that failed by itself", api.Task{Repo: &api.RepoResult{Before: gate(false, noPytest), Rounds: []api.Round{{N: 1, Gate: gate(false, "AssertionError\n")}}}}, observe.Lack{}},
		{"a gate that passes", api.Task{Repo: &api.RepoResult{Before: gate(true, noPytest)}}, observe.Lack{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := &Engine{cfg: Config{Advise: func(_ context.Context, _ api.CreateSandbox, l observe.Lack) string {
				if l != c.want {
					t.Errorf("it lacks %+v, want %+v", l, c.want)
				}
				return "Install it."
			}}}
			got := c.task
			got.Outcome, got.Diagnosis = api.OutcomeNeedsHuman, "It failed."
			e.advise(t.Context(), &got)
			want := "It failed. Install it."
			if c.want == (observe.Lack{}) {
				want = "It failed."
			}
			if got.Diagnosis != want {
				t.Errorf("the diagnosis is %q, want %q", got.Diagnosis, want)
			}
			got.Outcome, got.Diagnosis = api.OutcomeVerified, ""
			if e.advise(t.Context(), &got); got.Diagnosis != "" {
				t.Errorf("a verified task has the diagnosis %q", got.Diagnosis)
			}
		})
	}
}
