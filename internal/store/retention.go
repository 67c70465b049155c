package store

import "time"

// Retention bounds what is kept of what has ended, for each account: rows that have
// ended and are in bounds stay, others are removed. What has not ended always stays.
type Retention struct {
	// Rows is the maximum number of sandboxes, and of snapshots, of an account; Execs
	// that of its commands. The ones that ended last stay.
	Rows, Execs int
	// Bytes bounds the rows of each of these kinds, as they are stored.
	Bytes int64
	// Before is when the oldest of them ended; the zero time bounds nothing.
	Before time.Time
}

// Pruned counts the rows that a retention removed.
type Pruned struct{ Sandboxes, Execs, Snapshots, Events, Tasks int }

// Plus adds what was removed besides.
func (p Pruned) Plus(q Pruned) Pruned {
	return Pruned{p.Sandboxes + q.Sandboxes, p.Execs + q.Execs, p.Snapshots + q.Snapshots, p.Events + q.Events, p.Tasks + q.Tasks}
}

// Zero says whether nothing was removed.
func (p Pruned) Zero() bool { return p == Pruned{} }
