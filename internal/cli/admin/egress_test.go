package admin

import (
	"testing"

	"hortus.dev/internal/egress/check"
)

// TestCell: what was not tested is not shown as broken, nor as held.
func TestCell(t *testing.T) {
	for _, c := range []struct {
		results []check.Result
		want    string
	}{
		{[]check.Result{check.Held}, "held"}, {[]check.Result{check.Held, check.Held}, "held, also forked"}, {[]check.Result{check.Held, check.Broken}, "BROKEN"},
		{[]check.Result{check.Held, check.NotTested}, "not tested"}, {[]check.Result{check.NotTested, check.Broken}, "BROKEN"}, {[]check.Result{check.NotApplicable}, "n/a"},
	} {
		var rows []check.Row
		for i, r := range c.results {
			rows = append(rows, check.Row{ID: "a", Isolation: "gvisor", Phase: []check.Phase{check.Running, check.Forked}[i], Result: r})
		}
		if got := cell(rows, "a", "gvisor"); got != c.want {
			t.Errorf("%v: %q, want %q", c.results, got, c.want)
		}
	}
}
