package pgalloc

import (
	"time"

	"gvisor.dev/gvisor/pkg/atomicbitops"
	"gvisor.dev/gvisor/pkg/errors/linuxerr"
	"gvisor.dev/gvisor/pkg/sentry/usage"
)

// A brake slows allocations down while more memory is in use than programs may use. The guest
// enforces the limit by polling. Until it has killed a program, the others must not use so much
// that the host ends the whole sandbox.
//
// The delay grows with the excess, so that many programs together cannot outrun it.
type brake struct {
	allocated atomicbitops.Uint64 // since the last look at the usage, in bytes
	excess    atomicbitops.Uint64 // at that look
}

const (
	// brakeStep is how much is allocated between two looks at the usage.
	brakeStep = 256 << 10
	// brakeDelay is the delay for each MB of excess, and brakeMax the longest one.
	brakeDelay = 10 * time.Millisecond
	brakeMax   = 500 * time.Millisecond
	// brakeLocked is the longest delay of a task that may hold the locks of its memory, which
	// the guest needs to see how much that is.
	brakeLocked = 20 * time.Millisecond
	// brakeLarge is the maximum length of what is not refused if it exceeds the limit: one call
	// fills it, and nothing can stop that.
	brakeLarge = 16 << 20
)

// beforeAllocate delays or refuses an allocation.
func (b *brake) beforeAllocate(f *MemoryFile, length uint64, kind usage.MemoryKind) error {
	limit := usage.MaximumTotalMemoryBytes
	if limit == 0 || b.allocated.Add(length) < brakeStep {
		return nil
	}
	b.allocated.Store(0)
	used, err := f.TotalUsage()
	if err != nil {
		return nil
	}
	if length > brakeLarge && used+length > limit {
		return linuxerr.ENOMEM
	}
	d := b.look(used)
	if kind != usage.Tmpfs {
		d = min(d, brakeLocked)
	}
	time.Sleep(d)
	return nil
}

// look stores the excess and returns the delay for it.
func (b *brake) look(used uint64) time.Duration {
	limit := usage.MaximumTotalMemoryBytes
	b.excess.Store(max(used, limit) - limit)
	if used <= limit {
		return 0
	}
	return min(brakeDelay*time.Duration(1+(used-limit)>>20), brakeMax)
}

// BrakeDelay is how long a task without locks must wait before it uses more memory.
func (f *MemoryFile) BrakeDelay() time.Duration {
	if f.brake.excess.Load() == 0 {
		return 0
	}
	used, err := f.TotalUsage() // what exceeded the limit may be released
	if err != nil {
		return 0
	}
	return f.brake.look(used)
}
