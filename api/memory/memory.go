package memory

import "hortus.dev/api"

// Use is the memory of several sandboxes. Shared memory is counted once, and not at all
// if it is the own memory of one of them.
type Use struct {
	OwnBytes    int64 `json:"ownBytes"`
	SharedBytes int64 `json:"sharedBytes"`
}

// Of adds up what sandboxes use, apart from what their hosts cannot tell. Memory that a
// running sandbox holds for them is not theirs. Of files it counts at most what is used of them;
// memory of a sandbox that has ended is in use as a whole.
func Of(stats map[api.SandboxID]api.Stats) (use Use) {
	type base struct {
		bytes, total int64
		file         bool
	}
	bases := map[string]base{}
	for _, s := range stats {
		use.OwnBytes += max(s.MemoryOwnBytes, 0)
		for _, m := range s.SharedMemory {
			if m.Holder != "" {
				continue
			}
			b := bases[m.Name]
			bases[m.Name] = base{b.bytes + m.Bytes, max(b.total, m.TotalBytes), m.File}
		}
	}
	for _, b := range bases {
		if b.file {
			b.total = min(b.total, b.bytes)
		}
		use.SharedBytes += b.total
	}
	return use
}
