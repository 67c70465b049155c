package repo

import (
	"context"
	"encoding/json"
	"testing"

	"hortus.dev/api"
)

// taken keeps the last fact.
type taken struct{ data any }

func (k *taken) Emit(_ context.Context, _ api.EventType, data any) { k.data = data }

// TestCandidateEmitter: each kind of event of an agent names its candidate, and what is no event of an agent stays as it is.
func TestCandidateEmitter(t *testing.T) {
	for _, data := range []any{
		api.RepoStepEvent{Step: "agent"}, api.ToolEvent{}, api.SayEvent{}, api.TodoEvent{}, api.CompactEvent{}, api.ModelEvent{}, api.ModelRetryEvent{}, api.EscalationEvent{},
	} {
		var k taken
		candidateEmitter{Emitter: &k, n: 3}.Emit(t.Context(), "any", data)
		raw, err := json.Marshal(k.data)
		var of struct{ Candidate int }
		if err != nil || json.Unmarshal(raw, &of) != nil || of.Candidate != 3 {
			t.Errorf("%T: %s, %v", data, raw, err)
		}
	}
	var k taken
	candidateEmitter{Emitter: &k, n: 3}.Emit(t.Context(), "any", api.TierEvent{})
	if k.data != (api.TierEvent{}) {
		t.Errorf("%+v", k.data)
	}
}
