// Package choice decides which of several results of a task is the best one, and says why the others are not.
//
//	order := choice.Rank(scores)
//	best := order[0]            // Why says what decided
//
// The order is: the gate passed; something was changed; the gate ran on it; fewer tests that passed before and do not pass now; the lint command passed; fewer
// tests that fail, if no gate passed; fewer changed lines; lower cost; fewer tokens; the lower number. It is total, so
// the same scores give the same order.
//
// It is pure: it holds nothing, and must not know what a candidate, a sandbox or a repository is.
package best
