package placement

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"hortus.dev/api"
)

// Node is what is known of a node.
type Node struct {
	ID api.NodeID
	// At is when the figures are from.
	At time.Time
	// MemoryBudget is the memory that can be promised to sandboxes, MemoryPromised what is.
	MemoryBudget, MemoryPromised int64
	// CPUs counts processors, Load the threads that use or wait for one.
	CPUs, Load float64
	// Waiting counts sandboxes that wait for capacity. Those that are being created are among the promises.
	Waiting int
	// Full is true if not even the smallest sandbox could begin now, DiskFull if it refuses what needs a file.
	Full, DiskFull bool
	// Isolations are the backends that can start sandboxes, Templates the names of templates and images.
	Isolations, Templates []string
}

// Need is what a new thing needs. Empty fields are not known.
type Need struct {
	Memory              int64
	Isolation, Template string
}

// Placer orders nodes.
type Placer struct {
	shuffle func(n int, swap func(i, j int))

	mu     sync.Mutex
	placed map[api.NodeID]placed
}

// placed is what was placed on a node since its figures of a time.
type placed struct {
	since  time.Time
	memory int64
	count  int
}

// New makes a placer. shuffle orders n things at random; nil is rand.Shuffle.
func New(shuffle func(n int, swap func(i, j int))) *Placer {
	if shuffle == nil {
		shuffle = rand.Shuffle
	}
	return &Placer{shuffle: shuffle, placed: map[api.NodeID]placed{}}
}

const (
	// choices is the number of nodes that are compared for the first place.
	choices = 3
	// memorySteps and processorSteps are how finely memory and processors are compared.
	memorySteps    = 16
	processorSteps = 8
	// usual is the memory that a thing is counted with whose need is not known.
	usual = 512 << 20
)

// Free is the memory of a node that is not promised, in bytes, without what was placed there since its figures; at most the budget. It has no limit if the budget has none.
func (p *Placer) Free(x Node) int64 {
	if x.MemoryBudget <= 0 {
		return math.MaxInt64
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return x.MemoryBudget - x.MemoryPromised - p.since(x).memory
}

// Place is Order, and counts the thing for the first node.
func (p *Placer) Place(nodes []Node, n Need) []Node {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.order(nodes, n)
	if len(all) > 0 {
		x := p.since(all[0])
		p.placed[all[0].ID] = placed{all[0].At, x.memory + cmp.Or(n.Memory, usual), x.count + 1}
	}
	return all
}

// Order returns the nodes for a new thing in the order in which to ask them. Nodes that are known not to have the isolation, that are full, or whose disk is, come last.
func (p *Placer) Order(nodes []Node, n Need) []Node {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.order(nodes, n)
}

// order is Order. The caller holds the lock.
func (p *Placer) order(nodes []Node, n Need) []Node {
	n.Memory = cmp.Or(n.Memory, usual)
	all := slices.Clone(nodes)
	p.shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	most := int64(1)
	for _, x := range all {
		most = max(most, x.MemoryBudget)
	}
	better := func(a, b Node) int {
		return cmp.Or(p.misses(a, n)-p.misses(b, n), cmp.Compare(p.memory(b, most), p.memory(a, most)), cmp.Compare(processors(b), processors(a)),
			cmp.Compare(p.busy(a), p.busy(b)))
	}
	// What can start it is compared first, so that three random nodes without it do not win.
	slices.SortStableFunc(all, func(a, b Node) int { return p.misses(a, n) - p.misses(b, n) })
	first := min(choices, len(all))
	slices.SortStableFunc(all[:first], better)
	slices.SortStableFunc(all[first:], better)
	return all
}

// misses says how unlikely it is that a node can make the thing.
func (p *Placer) misses(x Node, n Need) (points int) {
	if x.DiskFull {
		points += 16
	}
	if n.Isolation != "" && len(x.Isolations) > 0 && !slices.Contains(x.Isolations, n.Isolation) {
		points += 8
	}
	if x.Full {
		points += 4
	}
	if n.Template != "" && !slices.Contains(x.Templates, n.Template) {
		points += 2
	}
	if x.MemoryBudget > 0 && n.Memory > x.MemoryBudget {
		points++
	}
	return points
}

// since returns what was placed on a node that its figures do not have.
func (p *Placer) since(x Node) placed {
	if was := p.placed[x.ID]; was.since.Equal(x.At) {
		return was
	}
	return placed{}
}

// memory is the free memory of a node in steps of the largest node's.
func (p *Placer) memory(x Node, most int64) int64 {
	free := float64(x.MemoryBudget - x.MemoryPromised - p.since(x).memory)
	return int64(max(free, 0) / float64(most) * memorySteps)
}

// processors is the share of idle processors of a node in steps.
func processors(x Node) int {
	if x.CPUs <= 0 {
		return 0
	}
	return int(max(x.CPUs-x.Load, 0) / x.CPUs * processorSteps)
}

// busy counts what a node is about to start.
func (p *Placer) busy(x Node) int { return x.Waiting + p.since(x).count }
