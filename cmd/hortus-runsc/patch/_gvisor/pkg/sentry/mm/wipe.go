package mm

import (
	"gvisor.dev/gvisor/pkg/errors/linuxerr"
	"gvisor.dev/gvisor/pkg/hostarch"
)

// Advice for madvise(2) that gVisor does not have.
const (
	MADV_WIPEONFORK = 18
	MADV_KEEPONFORK = 19
)

// SetWipeOnFork implements the semantics of madvise MADV_WIPEONFORK and MADV_KEEPONFORK. What
// is to be wiped is zero in a child of fork(2), which keeps the setting, and after a restore.
func (mm *MemoryManager) SetWipeOnFork(addr hostarch.Addr, length uint64, wipe bool) error {
	addr = hostarch.UntaggedUserAddr(addr)
	return mm.madviseMutateVMAs(addr, length, func(vseg vmaIterator) error {
		vma := vseg.ValuePtr()
		// "The MADV_WIPEONFORK operation can be applied only to private anonymous
		// pages." - madvise(2)
		if wipe && (vma.mappable != nil || !vma.private) {
			return linuxerr.EINVAL
		}
		vma.wipeOnFork = wipe
		return nil
	})
}

// WipeRestored removes the contents of pages that are wiped on fork. What was restored may be one
// of several copies, as a child of a fork is: a random number generator that has such a page
// finds it empty, and obtains a new seed.
//
// Preconditions: No task runs.
func (mm *MemoryManager) WipeRestored() {
	mm.mappingMu.RLock()
	defer mm.mappingMu.RUnlock()
	mm.activeMu.Lock()
	defer mm.activeMu.Unlock()
	for vseg := mm.vmas.FirstSegment(); vseg.Ok(); vseg = vseg.NextSegment() {
		if vseg.ValuePtr().wipeOnFork {
			mm.invalidateLocked(vseg.Range(), true /* invalidatePrivate */, false /* invalidateShared */)
		}
	}
}
