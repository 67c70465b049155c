package task

import (
	"context"
	"encoding/json"

	"hortus.dev/api"
	"hortus.dev/internal/agent"
	"hortus.dev/internal/task/durable"
	"hortus.dev/internal/task/recall"
)

// steps records the steps of a pipeline in the journal of its task. It implements agent.Journal.
type steps struct{ journal *recall.Journal }

// Step implements agent.Journal.
func (s steps) Step(ctx context.Context, name string, asked, result any, do func(context.Context) error) error {
	executed := false
	raw, err := recall.Record(ctx, s.journal, name, durable.Digest(asked), func(ctx context.Context, _ durable.Try) (json.RawMessage, error) {
		executed = true
		derr := do(ctx)
		raw, err := json.Marshal(result)
		if err != nil {
			return nil, api.Errorf(api.KindInternal, "encode the result of the step %s: %w", name, err)
		}
		return raw, derr
	})
	if executed || len(raw) == 0 {
		return err
	}
	if derr := json.Unmarshal(raw, result); derr != nil {
		derr = api.Errorf(api.KindInternal, "the recorded result of the step %s: %w", name, derr)
		s.journal.Spoil(derr)
		return derr
	}
	return err
}

// lost is the report of a pipeline whose journal cannot be continued.
func lost(t *api.Task, journal *recall.Journal, rep agent.Report) agent.Report {
	if err := journal.Damage(); err != nil {
		rep.Outcome = api.OutcomeLost
		rep.Error = api.Errorf(api.KindOf(err), "the task cannot be continued: %w", err).
			WithHint("Run the request again. To see what was recorded: hortus task show %s.", t.ID)
	}
	return rep
}
