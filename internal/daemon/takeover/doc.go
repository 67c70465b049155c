// Package takeover continues what nodes of a fleet left that have fallen silent, or handed over: their rows get one heir, which ends what ran on
// them as lost, and continues tasks, sessions and plans.
//
//	t := takeover.Start(takeover.Config{Rows: db, Heir: owner, Lease: fleet.Lease, Steps: steps, Logger: log})
//	...
//	t.Close(ctx)
//
// Each node looks for silent ones eight times in a lease, by the clock of the database, and a node without capacity one look later than others; the first that
// finds one is its heir ([store.Nodes.InheritOwners]). The heir goes through the steps again until nothing unfinished is left, so that a step which failed,
// or a heir that died, loses nothing.
//
// Start starts a goroutine, which Close ends and waits for. The package must not know what the steps take over.
package takeover
