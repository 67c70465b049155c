package best

import (
	"cmp"
	"fmt"
	"slices"
)

// Lint is how a lint command ended.
type Lint int

const (
	NoLint Lint = iota // there is none, or it was not run
	LintPassed
	LintFailed
)

// Score is what is known of a result.
type Score struct {
	// N identifies it, from 1.
	N int
	// Changed is false if there is no result at all: nothing was changed.
	Changed bool
	// Passed is true if the gate passed.
	Passed bool
	// OldOnly is true if only tests that failed before the work keep its gate from passing.
	OldOnly bool
	// Judged is true if the gate ran on the result.
	Judged bool
	// Regressions counts the tests that passed before and do not pass now, Failing all that fail.
	Regressions, Failing int
	Lint                 Lint
	// Cautions counts those of the verdict.
	Cautions int
	// Agrees counts the other results that it agrees with, and Fails those whose new tests it fails.
	Agrees, Fails int
	// Lines counts the added and deleted lines.
	Lines int
}

// Standing is a score in its place, with the reason for it in relation to the best one; the best one has the reason
// in relation to the second.
type Standing struct {
	Score
	Why string
}

// rule is one criterion. compare is negative if a is better. because says why b lost to a.
type rule struct {
	compare func(a, b Score) int
	because func(a, b Score) string
	chosen  func(a, b Score) string
}

// truth compares two conditions: true is better.
func truth(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

func rules() []rule {
	return []rule{
		{
			func(a, b Score) int { return truth(a.Passed, b.Passed) },
			func(_, b Score) string {
				if !b.Changed {
					return "it changed nothing"
				}
				return "its gate did not pass"
			},
			func(_, _ Score) string { return "its gate passed" },
		}, {
			func(a, b Score) int { return truth(!a.Passed && a.OldOnly, !b.Passed && b.OldOnly) },
			func(_, b Score) string {
				if !b.Changed {
					return "it changed nothing"
				}
				return "more than old failures is left, or no test shows its change"
			},
			func(_, _ Score) string { return "only tests that failed before the work fail" },
		}, {
			func(a, b Score) int { return truth(a.Changed, b.Changed) },
			func(_, _ Score) string { return "it changed nothing" },
			func(_, _ Score) string { return "it changed something" },
		}, {
			// What is unknown of a result that the gate did not run on is not better than what is known.
			func(a, b Score) int { return truth(a.Passed || a.Judged, b.Passed || b.Judged) },
			func(_, _ Score) string { return "the gate did not run on its result" },
			func(_, _ Score) string { return "the gate ran on its result" },
		}, {
			// What deceives the gate is smaller than what is right: nothing that can be small comes before this.
			func(a, b Score) int {
				if !a.Passed || !b.Passed {
					return 0
				}
				return cmp.Compare(a.Cautions, b.Cautions)
			},
			func(a, b Score) string {
				return fmt.Sprintf("%s, against %d", count(b.Cautions, "caution"), a.Cautions)
			},
			func(a, b Score) string {
				return fmt.Sprintf("%s, against %d", count(a.Cautions, "caution"), b.Cautions)
			},
		}, {
			// What most of them do is more likely right than what one of them does alone.
			func(a, b Score) int { return cmp.Compare(b.Agrees, a.Agrees) },
			func(a, b Score) string {
				return fmt.Sprintf("it agrees with %s, the best one with %d", count(b.Agrees, "other"), a.Agrees)
			},
			func(a, b Score) string {
				return fmt.Sprintf("it agrees with %s, against %d", count(a.Agrees, "other"), b.Agrees)
			},
		}, {
			func(a, b Score) int { return cmp.Compare(a.Fails, b.Fails) },
			func(a, b Score) string {
				return fmt.Sprintf("it fails the new tests of %s, the best one of %d", count(b.Fails, "other"), a.Fails)
			},
			func(a, b Score) string {
				return fmt.Sprintf("it fails the new tests of %d, against %d", a.Fails, b.Fails)
			},
		}, {
			func(a, b Score) int { return cmp.Compare(a.Regressions, b.Regressions) },
			func(a, b Score) string {
				return fmt.Sprintf("%s, against %d", count(b.Regressions, "regression"), a.Regressions)
			},
			func(a, b Score) string {
				return fmt.Sprintf("%s, against %d", count(a.Regressions, "regression"), b.Regressions)
			},
		}, {
			// A result without a lint command is neither better nor worse.
			func(a, b Score) int {
				if a.Lint == NoLint || b.Lint == NoLint {
					return 0
				}
				return cmp.Compare(a.Lint, b.Lint)
			},
			func(_, _ Score) string { return "its lint command failed" },
			func(_, _ Score) string { return "its lint command passed" },
		}, {
			func(a, b Score) int {
				if a.Passed || b.Passed {
					return 0
				}
				return cmp.Compare(a.Failing, b.Failing)
			},
			func(a, b Score) string {
				return fmt.Sprintf("%s, against %d", count(b.Failing, "failing test"), a.Failing)
			},
			func(a, b Score) string {
				return fmt.Sprintf("%s, against %d", count(a.Failing, "failing test"), b.Failing)
			},
		}, {
			func(a, b Score) int { return cmp.Compare(a.Lines, b.Lines) },
			func(a, b Score) string { return fmt.Sprintf("%s, against %d", count(b.Lines, "changed line"), a.Lines) },
			func(a, b Score) string { return fmt.Sprintf("%s, against %d", count(a.Lines, "changed line"), b.Lines) },
		}, {
			func(a, b Score) int { return cmp.Compare(a.N, b.N) },
			func(_, _ Score) string { return "equal, and later in the list" },
			func(_, _ Score) string { return "equal, and first in the list" },
		},
	}
}

// Rank returns the scores, the best first.
func Rank(scores []Score) []Standing {
	all := rules()
	// Lint is comparable only if every one that it could decide between has it.
	sorted := slices.Clone(scores)
	for i := range sorted {
		if slices.ContainsFunc(scores, func(s Score) bool { return s.Lint == NoLint && s.Passed == sorted[i].Passed }) {
			sorted[i].Lint = NoLint
		}
	}
	slices.SortFunc(sorted, func(a, b Score) int {
		for _, r := range all {
			if c := r.compare(a, b); c != 0 {
				return c
			}
		}
		return 0
	})
	out := make([]Standing, len(sorted))
	for i, s := range sorted {
		out[i].Score = s
		switch {
		case i > 0:
			out[i].Why = decided(all, sorted[0], s).because(sorted[0], s)
		case len(sorted) > 1:
			out[i].Why = decided(all, s, sorted[1]).chosen(s, sorted[1])
		default:
			out[i].Why = "it is the only one"
		}
	}
	return out
}

// decided is the rule by which a is before b.
func decided(all []rule, a, b Score) rule {
	for _, r := range all {
		if r.compare(a, b) != 0 {
			return r
		}
	}
	return all[len(all)-1]
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
