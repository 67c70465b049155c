package edit

import (
	"math"
	"slices"
)

const (
	// unreached is added to the cost of a line that no failing test executes. It is
	// more than any other cost.
	unreached = 1000
	// slack is more than a kind of edit takes off the cost of its line.
	slack = 100
)

// Trace is which lines the tests executed.
type Trace struct {
	// Failing and Passing count the tests.
	Failing, Passing int
	// Ranges are the lines that failing tests executed, by path.
	Ranges map[string][]Range
}

// Range is the lines From to To, counted from 1 and both included, with how many
// tests executed them.
type Range struct{ From, To, Failing, Passing int }

// hits returns how many failing and passing tests executed a line, counted from 0.
func (t *Trace) hits(s *source, i int) (failing, passing int) {
	for _, r := range t.Ranges[s.path] {
		if r.From-1 <= i && i <= r.To-1 && r.Failing > failing {
			failing, passing = r.Failing, r.Passing
		}
	}
	return failing, passing
}

// traced returns the suspicion of a line from 0 to 1 (Ochiai's formula), and 0 where
// no failing test executed it. A line without code of its own has that of its
// statement's first line, or of the next line.
func (p *project) traced(s *source, i int) float64 {
	f, ok := p.trace.hits(s, i)
	for j := i - 1; f == 0 && s.lang == Python && j >= 0 && s.lines[j+1].depth > 0; j-- {
		f, ok = p.trace.hits(s, j)
	}
	if f == 0 && i+1 < len(s.lines) && s.lines[i].last() == ":" {
		f, ok = p.trace.hits(s, i+1)
	}
	if f == 0 {
		return 0
	}
	return float64(f) / math.Sqrt(float64(max(p.trace.Failing, f))*float64(f+ok))
}

// tracedCost is the cost of a line by the trace, and by the cost of its unit.
func (p *project) tracedCost(s *source, i int, unit float64) float64 {
	suspicion := p.traced(s, i)
	if suspicion == 0 {
		return unreached + unit
	}
	return 1 + 3*(1-suspicion) + 0.5*unit
}

// Reached returns how many of a sorted list of edits come before the first one in a
// line that no failing test executes and no message names.
func Reached(edits []Edit) int {
	n := slices.IndexFunc(edits, func(e Edit) bool { return e.cost >= unreached-slack })
	if n < 0 {
		return len(edits)
	}
	return n
}
