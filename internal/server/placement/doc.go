// Package placement orders the nodes of a fleet for a new thing.
//
//	p := placement.New(nil)
//	for _, n := range p.Place(nodes, placement.Need{Memory: 512 << 20, Template: "python"}) {
//		... // ask the first; the next one if it refuses
//	}
//
// The best of three random nodes comes first: by what it has of the template, then by free memory, processors, and what waits.
// All others follow, since each may refuse.
//
// The package must not know where its figures come from. A [Placer] remembers what it placed on a node since the figures of that node were
// measured, has nothing to close, and may be used by several goroutines.
//
// # Reasons
//
// Figures are seconds old, and every node places. With the best of all nodes, all doors choose the same one until its figures
// change; the best of three random ones spreads them and is nearly as good. Memory is counted in steps, so that a difference that does not matter
// leaves the choice to processors.
package placement
