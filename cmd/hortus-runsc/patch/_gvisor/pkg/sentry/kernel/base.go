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

// beginBases decides what the checkpoint that begins contains of private memory and of files.
//
// Preconditions: The kernel must be paused.
func (k *Kernel) beginBases(ctx context.Context) error {
	if err := k.pullBases(ctx); err != nil {
		return err
	}
	users := k.mf.PageUsers()
	k.mf.SaveSlots(k.basePages(users))
	name := k.mf.BeginFreeze()
	if name == "" {
		return nil
	}
	var pages []memmap.FileRange
	for _, u := range users {
		pages = u.FreezePages(k.mf, pages)
	}
	// What another user may still write, such as a device, is not frozen.
	ranges := k.mf.Unmapped(pages)
	for _, m := range k.memoryManagers() {
		ranges = m.Freeze(ranges)
	}
	k.mf.Freeze(name, ranges)
	return nil
}

// basePages returns which parts of bases the users refer to.
func (k *Kernel) basePages(users []pgalloc.PageUser) map[*pgalloc.BaseFile][]memmap.FileRange {
	ranges := map[*pgalloc.BaseFile][]memmap.FileRange{}
	if k.mf.Bases() == nil {
		return ranges
	}
	for _, u := range users {
		u.BasePages(k.mf, ranges)
	}
	return ranges
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
	users := k.mf.PageUsers()
	used := map[*pgalloc.BaseFile]uint64{}
	for _, m := range managers {
		m.BaseUsage(used)
	}
	for b, ranges := range k.basePages(users) {
		for _, fr := range ranges {
			used[b] += fr.Length()
		}
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
	for _, u := range users {
		if err := u.PullPages(ctx, k.mf, pull); err != nil {
			return err
		}
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
	// Bytes is what private memory and files refer to, each byte of the base once. Allocated
	// is what the base has on its file system.
	Bytes, Allocated uint64
}

// BaseUse returns what private memory and files refer to now, by the names of the bases.
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
	ranges := k.basePages(k.mf.PageUsers())
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

// wipeRestored removes, from the memory that was loaded, what is not to be in a copy of a
// process: see mm.MemoryManager.WipeRestored.
//
// Preconditions: No task runs.
func (k *Kernel) wipeRestored() {
	for _, m := range k.memoryManagers() {
		m.WipeRestored()
	}
}
