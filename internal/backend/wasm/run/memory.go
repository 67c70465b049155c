package run

import (
	"github.com/tetratelabs/wazero/experimental"
	"golang.org/x/sys/unix"

	"hortus.dev/internal/backend/wasm/memfs"
)

// allocator allocates the memory of modules from the budget of the sandbox.
type allocator struct {
	files   *memfs.Client
	limit   uint64
	refused bool // a module did not get memory
}

// Allocate implements experimental.MemoryAllocator. It reserves addresses only.
func (a *allocator) Allocate(_, max uint64) experimental.LinearMemory {
	m := &memory{allocator: a}
	if size := min(max, a.limit); size > 0 {
		m.reserved, _ = unix.Mmap(-1, 0, int(size), unix.PROT_NONE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE)
	}
	return m
}

// memory is the memory of a module, at the beginning of reserved addresses.
type memory struct {
	*allocator
	reserved []byte
	size     uint64
}

// Reallocate implements experimental.LinearMemory. It returns nil if the sandbox's limit is reached.
func (m *memory) Reallocate(size uint64) []byte {
	grown := m.grow(size)
	m.refused = m.refused || grown == nil
	return grown
}

func (m *memory) grow(size uint64) []byte {
	if size > uint64(len(m.reserved)) {
		return nil
	}
	if size <= m.size {
		return m.reserved[:size:size]
	}
	page := uint64(unix.Getpagesize())
	end := min((size+page-1)/page*page, uint64(len(m.reserved)))
	if !m.files.TakeMemory(int64(size - m.size)) {
		return nil
	}
	if unix.Mprotect(m.reserved[:end], unix.PROT_READ|unix.PROT_WRITE) != nil {
		m.files.TakeMemory(-int64(size - m.size))
		return nil
	}
	m.size = size
	return m.reserved[:size:size]
}

// Free implements experimental.LinearMemory.
func (m *memory) Free() {
	if m.reserved != nil {
		_ = unix.Munmap(m.reserved) // the process ends
		m.reserved = nil
	}
}
