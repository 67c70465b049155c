// Package retention removes the rows of what has ended: those that are older than a
// maximum age, and the oldest beyond a maximum number and size for each account. One
// account's flood of short sandboxes does not grow the database without bound, and does
// not push out what other accounts keep.
//
// A [Keeper] prunes soon after it is made and from then on at intervals, in a goroutine
// of its own, which Close ends and waits for. What has not ended is never removed: the
// store checks each row's state in the transaction that removes it.
//
// The package must not know SQL or what rows hold.
package retention
