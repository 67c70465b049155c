package task_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/task"
)

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
			e, mem, boxes := newEngine(t, func(cfg *task.Config) {
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
			if got.Error == nil || len(got.Attempts) != 0 || boxes.Created.Load() != 0 {
				t.Fatalf("%+v, %d sandboxes", got, boxes.Created.Load())
			}
			for _, s := range c.says {
				if !strings.Contains(got.Error.Message+" "+got.Error.Hint, s) {
					t.Errorf("%q is not in %+v", s, got.Error)
				}
			}
		})
	}
}
