package journal

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/agent/loop"
)

// Counts counts the events of a task that an earlier daemon emitted: its own, those of each candidate, and those of each sub-agent. A nil
// one counts none.
type Counts struct {
	own   map[api.EventType]int
	parts map[string]*Counts
}

// Add counts an event.
func (c *Counts) Add(ev api.Event) {
	var of struct {
		Candidate int
		Agent     string
	}
	if json.Unmarshal(ev.Data, &of) == nil {
		if of.Candidate > 0 {
			c = c.part(CandidatePart(of.Candidate))
		}
		if strings.HasPrefix(of.Agent, loop.ResearchTool+" ") {
			c = c.part(of.Agent)
		}
	}
	if c.own == nil {
		c.own = map[api.EventType]int{}
	}
	c.own[ev.Type]++
}

// part returns the count of a part, which it makes.
func (c *Counts) part(name string) *Counts {
	if c.parts == nil {
		c.parts = map[string]*Counts{}
	}
	if c.parts[name] == nil {
		c.parts[name] = &Counts{}
	}
	return c.parts[name]
}

// Of returns the count of a part; nil if it told nothing.
func (c *Counts) Of(part string) *Counts {
	if c == nil {
		return nil
	}
	return c.parts[part]
}

// Count returns how many events of a type were emitted, without those of parts.
func (c *Counts) Count(of api.EventType) int {
	if c == nil {
		return 0
	}
	return c.own[of]
}

// counts returns a copy of the counts without those of parts.
func (c *Counts) counts() map[api.EventType]int {
	if c == nil {
		return map[api.EventType]int{}
	}
	return maps.Clone(c.own)
}

// CandidatePart names the part of a journal that is of a candidate.
func CandidatePart(n int) string { return fmt.Sprint("candidate ", n) }
