package store

import "time"

// Retention limits the ended rows of each account: those that exceed it are removed. Rows
// that have not ended are always kept.
type Retention struct {
	// Rows is the maximum number of sandboxes, and of snapshots, of an account; Execs
	// that of its commands. The last to end are kept. Decisions is the maximum number of
	// its decisions about outgoing connections, of its uses of secrets, and of the sums that
	// days and tasks used of budgets; they end when they are made, and sums of a task when it
	// has ended.
	Rows, Execs, Decisions int
	// Bytes is the maximum stored size of the rows of each kind.
	Bytes int64
	// Before removes rows that ended before it; the zero time removes none.
	Before time.Time
}

// Pruned counts the rows that a retention removed.
type Pruned struct{ Sandboxes, Execs, Snapshots, Repositories, Events, Tasks, Decisions, Uses, Spent int }

// Plus adds two counts.
func (p Pruned) Plus(q Pruned) Pruned {
	return Pruned{p.Sandboxes + q.Sandboxes, p.Execs + q.Execs, p.Snapshots + q.Snapshots, p.Repositories + q.Repositories, p.Events + q.Events, p.Tasks + q.Tasks, p.Decisions + q.Decisions, p.Uses + q.Uses, p.Spent + q.Spent}
}

// Zero reports whether nothing was removed.
func (p Pruned) Zero() bool { return p == Pruned{} }
