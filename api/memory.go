package api

// SharedMemory is memory that sandboxes have together.
type SharedMemory struct {
	// Name is the same for all of them. Bytes is what this sandbox has of it, and
	// TotalBytes its size.
	Name       string `json:"name"`
	Bytes      int64  `json:"bytes"`
	TotalBytes int64  `json:"totalBytes"`
	// Holder is the running sandbox whose own memory it is. Without one it is the pages of
	// a saved sandbox, a File on the disk, or memory of a sandbox that has ended.
	Holder SandboxID `json:"holder,omitempty"`
	File   bool      `json:"file,omitempty"`
}

// MemoryOrigin says what the memory of a sandbox that was forked or restored is.
type MemoryOrigin string

const (
	MemoryShared MemoryOrigin = "shared" // with what it came from, until it is written
	MemoryCopied MemoryOrigin = "copied" // its own from the start
)

// MemoryUse is the memory of several sandboxes. Shared memory is counted once, and not at all
// if it is the own memory of one of them.
type MemoryUse struct {
	OwnBytes    int64 `json:"ownBytes"`
	SharedBytes int64 `json:"sharedBytes"`
}

// MemoryOf adds up what sandboxes use, apart from what their hosts cannot tell. Memory that a
// running sandbox holds for them is not theirs. Of files it counts at most what is used of them;
// memory of a sandbox that has ended is in use as a whole.
func MemoryOf(stats map[SandboxID]Stats) (use MemoryUse) {
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
