// Package tally computes the statistics of tasks: outcomes, attempts, durations, costs.
//
// A [Tally] sees one task at a time and keeps only sums, so its memory does not grow with the
// number of tasks: names that come from programs and models are bounded in number and length.
// [Fold] keeps such sums for removed tasks; [Rows] does both for a store. A Tally is for one
// goroutine and holds nothing that needs closing. The package must not know which store it
// is, or who asks.
//
//	stats, err := tally.Rows{Store: db}.TaskStats(ctx, account, since)
package tally
