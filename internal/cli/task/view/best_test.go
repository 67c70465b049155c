package view

import (
	"strings"
	"testing"
	"text/tabwriter"

	"hortus.dev/api/best"
)

// TestShowCandidates: the table has each candidate in a line, whatever its texts contain.
func TestShowCandidates(t *testing.T) {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	showCandidates(w, []best.Candidate{
		{N: 1, State: best.Ended, Passed: true, Chosen: true, Why: "its gate passed", Lines: 2, Lint: "passed", Variant: best.Variant{Strategy: "small\x1b[31m\tsteps"}},
		{N: 2, State: best.Ended, Unpriced: 1, Why: "its gate\nfailed", Regressions: 3},
		{N: 3, State: best.Running},
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
