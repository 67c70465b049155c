package view

import (
	"hortus.dev/api"
	"strings"
	"testing"
	"text/tabwriter"
)

// TestShowCandidates: the table has each candidate in a line, whatever its texts contain.
func TestShowCandidates(t *testing.T) {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	showCandidates(w, []api.Candidate{
		{N: 1, State: api.CandidateEnded, Passed: true, Chosen: true, Why: "its gate passed", Lines: 2, Lint: "passed", Variant: api.Variant{Strategy: "small\x1b[31m\tsteps"}},
		{N: 2, State: api.CandidateEnded, Unpriced: 1, Why: "its gate\nfailed", Regressions: 3},
		{N: 3, State: api.CandidateRunning},
	})
	w.Flush()
	lines := strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
	if len(lines) != 4 || strings.Contains(b.String(), "\x1b") {
		t.Fatalf("%d lines: %q", len(lines), b.String())
	}
	for i, want := range []string{"REGRESSIONS", "CHOSEN: its gate passed", "unknown", "running"} {
		if !strings.Contains(lines[i], want) {
			t.Errorf("line %d is %q, want %q", i, lines[i], want)
		}
	}
	b.Reset()
	if showCandidates(&b, nil); b.Len() != 0 {
		t.Error("a table without candidates is shown")
	}
}

// TestShowSearch: the table of a search says on which level each candidate is and which one it continues.
func TestShowSearch(t *testing.T) {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	showCandidates(w, []api.Candidate{
		{N: 1, Level: 1, State: api.CandidateEnded}, {N: 2, Level: 1, State: api.CandidateEnded}, {N: 3, Level: 2, Parent: 2, State: api.CandidateEnded, Passed: true, Chosen: true, Why: "its gate passed"},
	})
	w.Flush()
	lines := strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
	for i, want := range []string{"LEVEL FROM N GATE", "1 - 1 not passed", "1 - 2 not passed", "2 2 3 passed"} {
		if got := strings.Join(strings.Fields(lines[i]), " "); !strings.HasPrefix(strings.TrimPrefix(got, "candidates "), want) {
			t.Errorf("line %d is %q, want %q", i, got, want)
		}
	}
	for want, c := range map[string]api.Candidate{"": {N: 1}, " on level 1": {N: 1, Level: 1}, " on level 2, from candidate 1": {N: 3, Level: 2, Parent: 1}} {
		if got := origin(c); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
