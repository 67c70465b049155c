package admission

import (
	"fmt"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
)

// shortage is a set of what a request lacks.
type shortage uint8

const (
	noSlot shortage = 1 << iota
	noMemory
	noCPU
	noDisk

	// ofAll are those that every sandbox needs some of.
	ofAll = noSlot | noMemory | noCPU
)

// needs are the things of which a request wants some.
func needs(r sandbox.Need) shortage {
	if r.Disk > 0 {
		return ofAll | noDisk
	}
	return ofAll
}

// cause is the one that is shown of several.
func (s shortage) cause() api.WaitCause {
	switch {
	case s&noMemory != 0:
		return api.WaitMemory
	case s&noDisk != 0:
		return api.WaitDisk
	case s&noSlot != 0:
		return api.WaitSandboxes
	case s&noCPU != 0:
		return api.WaitCPUs
	}
	return api.WaitTurn
}

func (g *Gate) memoryBudget() int64 {
	return int64(float64(g.host.MemoryTotal) * g.cfg.MemoryShare * g.cfg.Overcommit)
}

func (g *Gate) cpuBudget() float64 { return float64(g.host.CPUs) * g.cfg.CPUOvercommit }

func (g *Gate) diskFloor() int64 { return min(g.host.DiskTotal/20, 1<<30) }

// diskBudget is what may be promised of a disk that has so much free.
func (g *Gate) diskBudget(free int64) int64 {
	return int64(float64(max(free-g.diskFloor(), 0)) * g.cfg.Overcommit)
}

// scarce reports whether the host's memory itself is short. Where no sandbox holds any,
// nothing that could be waited for will free it.
func (g *Gate) scarce() bool {
	return g.n > 0 && g.host.MemoryAvailable-(g.unseen+1)*startup < g.floor
}

// short returns what a request lacks now. It subtracts, because the sum of what is promised and what is wanted may be too large for
// an int64. The caller holds the lock.
func (g *Gate) short(r sandbox.Need) (s shortage) {
	if g.n >= g.cfg.MaxSandboxes {
		s |= noSlot
	}
	if r.Memory > g.memoryBudget()-g.memory || g.scarce() {
		s |= noMemory
	}
	if g.cpus+r.CPUs > g.cpuBudget() {
		s |= noCPU
	}
	if r.Disk > 0 && r.Disk > g.diskBudget(g.host.DiskFree)-g.disk {
		s |= noDisk
	}
	return s
}

// why returns a shortage in numbers.
func (g *Gate) why(c api.WaitCause, r sandbox.Need) string {
	switch c {
	case api.WaitMemory:
		if r.Memory <= g.memoryBudget()-g.memory {
			return fmt.Sprintf("%s of the host's memory are free, and %s must remain free", size(g.host.MemoryAvailable), size(g.floor))
		}
		return fmt.Sprintf("%s of %s of memory are allocated to %d sandboxes; the sandbox needs %s", size(g.memory), size(g.memoryBudget()), g.n, size(r.Memory))
	case api.WaitDisk:
		return fmt.Sprintf("%s of disk are free and %s are allocated to %d sandboxes; the sandbox needs %s", size(g.host.DiskFree), size(g.disk), g.n, size(r.Disk))
	case api.WaitSandboxes:
		return fmt.Sprintf("%d of %d sandboxes exist, the maximum configured for this host", g.n, g.cfg.MaxSandboxes)
	case api.WaitCPUs:
		return fmt.Sprintf("%.4g of %.4g processors are allocated to %d sandboxes; the sandbox needs %.4g", g.cpus, g.cpuBudget(), g.n, r.CPUs)
	}
	return "earlier requests are served first"
}

// never refuses what would not fit if nothing else were there.
func (g *Gate) never(r sandbox.Need) error {
	var lacks, raise []string
	if r.Memory > g.memoryBudget() {
		lacks = append(lacks, fmt.Sprintf("%s of memory, but the maximum is %s (%s × memory share %.4g × overcommit %.4g)",
			size(r.Memory), size(g.memoryBudget()), size(g.host.MemoryTotal), g.cfg.MemoryShare, g.cfg.Overcommit))
		raise = append(raise, settings[api.WaitMemory])
	}
	if r.CPUs > g.cpuBudget() {
		lacks = append(lacks, fmt.Sprintf("%.4g processors, but the maximum is %.4g", r.CPUs, g.cpuBudget()))
		raise = append(raise, settings[api.WaitCPUs])
	}
	if most := g.diskBudget(g.host.DiskTotal); r.Disk > most {
		lacks = append(lacks, fmt.Sprintf("%s of disk, but the maximum is %s", size(r.Disk), size(most)))
		raise = append(raise, settings[api.WaitDisk])
	}
	if len(lacks) == 0 {
		return nil
	}
	return api.Errorf(api.KindInvalid, "the sandbox exceeds the capacity of this host: it needs %s", strings.Join(lacks, "; it needs ")).
		WithHint("request less, or raise %s in the configuration", strings.Join(raise, ", "))
}

// size writes bytes for people.
func size(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.0f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%d bytes", n)
}
