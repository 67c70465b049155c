package kernel

import (
	"sort"

	"gvisor.dev/gvisor/pkg/context"
	"gvisor.dev/gvisor/pkg/log"
	"gvisor.dev/gvisor/pkg/sentry/memmap"
	"gvisor.dev/gvisor/pkg/sentry/mm"
	"gvisor.dev/gvisor/pkg/sentry/pgalloc"
)

// Which bases a checkpoint may still refer to. What it does not refer to is part of it.
const (
	// maxBases is the maximum number, with the own one of the kernel's own checkpoint.
	maxBases = 8
	// A base of which less than one minBaseShare-th is used keeps more on the disk than it
	// saves; one smaller than minBaseSize is not worth its descriptor.
	minBaseShare = 4
	minBaseSize  = 1 << 20
)

// beginBases decides what the checkpoint that begins contains of private memory.
//
// Preconditions: The kernel must be paused.
func (k *Kernel) beginBases(ctx context.Context) error {
	if err := k.pullBases(ctx); err != nil {
		return err
	}
	name := k.mf.BeginFreeze()
	if name == "" {
		return nil
	}
	var ranges []memmap.FileRange
	for _, m := range k.memoryManagers() {
		ranges = m.Freeze(ranges)
	}
	k.mf.Freeze(name, ranges)
	return nil
}

// pullBases copies what the kernel refers to in bases that a checkpoint is not to refer to.
//
// Preconditions: The kernel must be paused.
func (k *Kernel) pullBases(ctx context.Context) error {
	bases := k.mf.Bases()
	if bases == nil {
		return nil
	}
	not := bases.BeginSave()
	managers := k.memoryManagers()
	used := map[*pgalloc.BaseFile]uint64{}
	for _, m := range managers {
		m.BaseUsage(used)
	}
	all := make([]*pgalloc.BaseFile, 0, len(used))
	for b := range used {
		all = append(all, b)
	}
	sort.Slice(all, func(i, j int) bool {
		if used[all[i]] != used[all[j]] {
			return used[all[i]] > used[all[j]]
		}
		return all[i].Name() < all[j].Name()
	})
	pull := map[*pgalloc.BaseFile]bool{}
	for i, b := range all {
		if not[b] || i >= maxBases || used[b] < minBaseSize || used[b] < b.Size()/minBaseShare {
			log.Infof("Copying %d bytes of the %d of base %s into the checkpoint", used[b], b.Size(), b.Name())
			pull[b] = true
		}
	}
	if len(pull) == 0 {
		return nil
	}
	for _, m := range managers {
		if err := m.PullBases(ctx, pull); err != nil {
			return err
		}
	}
	return nil
}

// BaseUse is what a kernel refers to of a base.
type BaseUse struct {
	Name string
	// Bytes is what private memory refers to, each byte of the base once. Allocated is
	// what the base has on its file system.
	Bytes, Allocated uint64
}

// BaseUse returns what private memory refers to now, by the names of the bases.
func (k *Kernel) BaseUse() []BaseUse {
	bases := k.mf.Bases().All()
	if len(bases) == 0 {
		return nil
	}
	managers := map[*mm.MemoryManager]bool{}
	k.tasks.mu.RLock()
	for t := range k.tasks.Root.tids {
		t.WithMuLocked(func(t *Task) {
			if m := t.MemoryManager(); m != nil { // nil for a task that has exited
				managers[m] = true
			}
		})
	}
	k.tasks.mu.RUnlock()
	ranges := map[*pgalloc.BaseFile][]memmap.FileRange{}
	for m := range managers {
		m.BaseRanges(ranges)
	}
	use := make([]BaseUse, 0, len(bases))
	for _, b := range bases {
		use = append(use, BaseUse{Name: b.Name(), Bytes: pgalloc.UnionSize(ranges[b]), Allocated: b.Allocated()})
	}
	return use
}

// memoryManagers returns those of all tasks.
//
// Preconditions: The kernel must be paused.
func (k *Kernel) memoryManagers() []*mm.MemoryManager {
	var all []*mm.MemoryManager
	seen := map[*mm.MemoryManager]bool{nil: true}
	add := func(m *mm.MemoryManager) {
		if !seen[m] {
			seen[m] = true
			all = append(all, m)
		}
	}
	k.tasks.mu.RLock()
	defer k.tasks.mu.RUnlock()
	for t := range k.tasks.Root.tids {
		add(t.image.MemoryManager)
		if r, ok := t.runState.(*runExecveAfterSiblingExitStop); ok {
			add(r.image.MemoryManager)
		}
	}
	return all
}
