package journal_test

import (
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/task/journal"
)

// TestTold: events are counted apart for the task, each candidate and each sub-agent. The name of another agent is no part.
func TestTold(t *testing.T) {
	told := &journal.Counts{}
	for _, data := range []string{`{}`, `{"agent":"codex"}`, `{"agent":"research 1"}`, `{"candidate":2}`, `{"candidate":2,"agent":"research 1"}`, `{"candidate":2,"agent":"research 1"}`, `no JSON`} {
		told.Add(api.Event{Type: api.EventTool, Data: []byte(data)})
	}
	second := told.Of(journal.CandidatePart(2))
	for name, c := range map[string]struct {
		told *journal.Counts
		want int
	}{
		"task": {told, 3}, "sub-agent": {told.Of("research 1"), 1}, "candidate": {second, 1}, "its sub-agent": {second.Of("research 1"), 2},
		"another candidate": {told.Of(journal.CandidatePart(1)), 0}, "another sub-agent": {second.Of("research 2"), 0}, "nothing": {nil, 0},
	} {
		if got := c.told.Count(api.EventTool); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
	if told.Count(api.EventSay) != 0 {
		t.Error("an event of another type was counted")
	}
}
