package task_test

import (
	"context"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/agent/observe"
	"hortus.dev/internal/task"
)

// A task that ends for want of a command has the advice in its diagnosis.
func TestAdviceInTheDiagnosis(t *testing.T) {
	e, _, _ := newEngine(t, func(cfg *task.Config) {
		cfg.Advise = func(_ context.Context, _ api.CreateSandbox, l observe.Lack) string { return "Install " + l.Name + "." }
	})
	got := done(t, e, api.CreateTask{Request: "Run this Bash: no_such_command --help"})
	if got.Outcome != api.OutcomeNeedsHuman || !strings.HasSuffix(got.Diagnosis, ". Install no_such_command.") {
		t.Errorf("%s: %q %v", got.Outcome, got.Diagnosis, got.Error)
	}
}
