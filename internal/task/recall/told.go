package recall

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/agent/loop"
)

// Told counts the events of a task that an earlier daemon told: its own, those of each candidate, and those of each sub-agent. A nil
// one counts none.
type Told struct {
	own   map[api.EventType]int
	parts map[string]*Told
}

// Add counts an event.
func (t *Told) Add(ev api.Event) {
	var of struct {
		Candidate int
		Agent     string
	}
	if json.Unmarshal(ev.Data, &of) == nil {
		if of.Candidate > 0 {
			t = t.part(CandidatePart(of.Candidate))
		}
		if strings.HasPrefix(of.Agent, loop.ResearchTool+" ") {
			t = t.part(of.Agent)
		}
	}
	if t.own == nil {
		t.own = map[api.EventType]int{}
	}
	t.own[ev.Type]++
}

// part returns the count of a part, which it makes.
func (t *Told) part(name string) *Told {
	if t.parts == nil {
		t.parts = map[string]*Told{}
	}
	if t.parts[name] == nil {
		t.parts[name] = &Told{}
	}
	return t.parts[name]
}

// Of returns the count of a part; nil if it told nothing.
func (t *Told) Of(part string) *Told {
	if t == nil {
		return nil
	}
	return t.parts[part]
}

// Count returns how many events of a type were told, without those of parts.
func (t *Told) Count(of api.EventType) int {
	if t == nil {
		return 0
	}
	return t.own[of]
}

// counts returns a copy of the counts without those of parts.
func (t *Told) counts() map[api.EventType]int {
	if t == nil {
		return map[api.EventType]int{}
	}
	return maps.Clone(t.own)
}

// CandidatePart names the part of a journal that is of a candidate.
func CandidatePart(n int) string { return fmt.Sprint("candidate ", n) }
