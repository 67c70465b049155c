package best_test

import (
	"math/rand/v2"
	"testing"

	"hortus.dev/internal/task/best"
)

func TestRank(t *testing.T) {
	ok := func(n, lines int) best.Score { return best.Score{N: n, Changed: true, Passed: true, Lines: lines} }
	bad := func(n int) best.Score { return best.Score{N: n, Changed: true, Lines: 1} }
	with := func(s best.Score, f func(*best.Score)) best.Score { f(&s); return s }
	for _, c := range []struct {
		name         string
		scores       []best.Score
		best         int
		chosen, lost string // reason of the best and of the last
	}{
		{"one", []best.Score{ok(1, 5)}, 1, "it is the only one", "it is the only one"},
		{"the only one that passes, though larger", []best.Score{bad(1), ok(2, 500), bad(3)}, 2, "its gate passed", "its gate did not pass"},
		{"nothing was changed", []best.Score{ok(1, 5), {N: 2, Passed: false}}, 1, "its gate passed", "it changed nothing"},
		{"a regression loses to a clean one, though smaller", []best.Score{with(ok(1, 1), func(s *best.Score) { s.Regressions = 1 }), ok(2, 90)}, 2, "0 regressions, against 1", "1 regression, against 0"},
		{"lint before size", []best.Score{with(ok(1, 1), func(s *best.Score) { s.Lint = best.LintFailed }), with(ok(2, 9), func(s *best.Score) { s.Lint = best.LintPassed })}, 2, "its lint command passed", "its lint command failed"},
		{"lint that only one has decides nothing", []best.Score{with(ok(1, 1), func(s *best.Score) { s.Lint = best.LintFailed }), ok(2, 9)}, 1, "1 changed line, against 9", "9 changed lines, against 1"},
		{"a tie goes to the smaller diff", []best.Score{ok(1, 12), ok(2, 3)}, 2, "3 changed lines, against 12", "12 changed lines, against 3"},
		{"no caution before size", []best.Score{with(ok(1, 1), func(s *best.Score) { s.Cautions = 1 }), ok(2, 90)}, 2, "0 cautions, against 1", "1 caution, against 0"},
		{"fewer cautions before lint", []best.Score{with(ok(1, 1), func(s *best.Score) { s.Cautions, s.Lint = 2, best.LintPassed }), with(ok(2, 90), func(s *best.Score) { s.Cautions, s.Lint = 1, best.LintFailed })}, 2, "1 caution, against 2", "2 cautions, against 1"},
		{"the gate before cautions", []best.Score{bad(1), with(ok(2, 9), func(s *best.Score) { s.Cautions = 3 })}, 2, "its gate passed", "its gate did not pass"},
		{"cautions decide nothing where no gate passed", []best.Score{with(bad(1), func(s *best.Score) { s.Cautions = 1 }), with(bad(2), func(s *best.Score) { s.Failing = 2 })}, 1, "0 failing tests, against 2", "2 failing tests, against 0"},
		{"then to the first", []best.Score{ok(2, 3), ok(1, 3)}, 1, "equal, and first in the list", "equal, and later in the list"},
		{"none passes: fewer failing tests", []best.Score{with(bad(1), func(s *best.Score) { s.Failing = 3 }), with(bad(2), func(s *best.Score) { s.Failing = 1; s.Lines = 50 })}, 2, "1 failing test, against 3", "3 failing tests, against 1"},
		{"none passes: one that leaves only old failures", []best.Score{with(bad(1), func(s *best.Score) { s.Judged = true }), with(bad(2), func(s *best.Score) { s.Judged, s.OldOnly, s.Failing, s.Lines = true, true, 2, 50 })}, 2, "only tests that failed before the work fail", "more than old failures is left, or no test shows its change"},
		{"one that passes before one that leaves old failures", []best.Score{with(bad(1), func(s *best.Score) { s.OldOnly = true }), ok(2, 500)}, 2, "its gate passed", "its gate did not pass"},
		{"none passes: work before none", []best.Score{{N: 1}, with(bad(2), func(s *best.Score) { s.Failing = 7 })}, 2, "it changed something", "it changed nothing"},
		{"none passes: what is known before what is unknown", []best.Score{bad(1), with(bad(2), func(s *best.Score) { s.Judged, s.Failing, s.Lines = true, 7, 9 })}, 2, "the gate ran on its result", "the gate did not run on its result"},
	} {
		got := best.Rank(c.scores)
		last := got[len(got)-1]
		if len(got) != len(c.scores) || got[0].N != c.best || got[0].Why != c.chosen || last.Why != c.lost {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

// TestRankIsTotal: the order does not depend on the order of the input, and the gate always comes first.
func TestRankIsTotal(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 7))
	for range 2000 {
		scores := make([]best.Score, 1+rnd.IntN(8))
		for i := range scores {
			scores[i] = best.Score{
				N: i + 1, Changed: true, Passed: rnd.IntN(2) == 0, Judged: rnd.IntN(2) == 0, Regressions: rnd.IntN(2), Failing: rnd.IntN(3),
				Lint: best.Lint(rnd.IntN(3)), Lines: rnd.IntN(3), Cautions: rnd.IntN(2),
			}
		}
		first := best.Rank(scores)
		rnd.Shuffle(len(scores), func(i, j int) { scores[i], scores[j] = scores[j], scores[i] })
		for i, r := range best.Rank(scores) {
			if r != first[i] {
				t.Fatalf("place %d: %+v and %+v of %+v", i, r, first[i], scores)
			}
			if i > 0 && r.Passed && !first[i-1].Passed {
				t.Fatalf("one that passed is behind one that did not: %+v", first)
			}
			if i > 0 && r.Passed && r.Cautions < first[i-1].Cautions && first[i-1].Passed && r.Judged == first[i-1].Judged {
				t.Fatalf("one with fewer cautions is behind one with more: %+v", first)
			}
		}
	}
}
