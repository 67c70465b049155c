package pgalloc

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sort"
	"sync/atomic"

	"gvisor.dev/gvisor/pkg/hostarch"
	"gvisor.dev/gvisor/pkg/sentry/memmap"
	"gvisor.dev/gvisor/pkg/sync"
)

// frozenMemory is memory of the main MemoryFile that does not change any more, private memory and pages
// of files: who writes it copies it first, because a reference is held on it until Thaw. A checkpoint
// does not contain it: what is restored reads it from the MemoryFile's own file, at the same
// offsets, as from a base.
type frozenMemory struct {
	// name and ranges are those of the checkpoint that is written, or that was read. The
	// ranges are disjoint and in ascending order. They do not change while either happens.
	name   string
	ranges []memmap.FileRange
	// unneeded are the ranges on which there are references for others alone, of which a
	// checkpoint that freezes nothing has no content. skip are both: what a checkpoint does
	// not contain. Both are as ranges are.
	unneeded, skip []memmap.FileRange
	// drop are the ranges on which the kernel that wrote the checkpoint holds references
	// for others, which the one that reads it does not.
	drop [][]memmap.FileRange
	// slots are those of the bases that pages of files are in. See SaveSlots.
	slots []baseSlot

	// pages are all ranges on which references are held, disjoint and in ascending order; nil if
	// there are none. What it points to is immutable.
	pages atomic.Pointer[[]memmap.FileRange]

	mu sync.Mutex
	// next is the name for what the next checkpoint freezes; "" if it freezes nothing.
	// held are the ranges on which references are held, by the names of their checkpoints.
	// Both are protected by mu.
	next string
	held map[string][]memmap.FileRange
}

// FreezeNext makes the next checkpoint freeze memory, which restored kernels know by the
// name.
func (f *MemoryFile) FreezeNext(name string) {
	f.frozen.mu.Lock()
	defer f.frozen.mu.Unlock()
	f.frozen.next = name
}

// BeginFreeze returns the name for what the checkpoint that begins freezes; "" if it must
// contain all memory.
func (f *MemoryFile) BeginFreeze() string {
	f.frozen.name = ""
	f.frozen.set(nil, nil)
	f.frozen.mu.Lock()
	name := f.frozen.next
	f.frozen.next = ""
	held := slices.Collect(maps.Values(f.frozen.held))
	f.frozen.mu.Unlock()
	if name == "" && len(held) > 0 {
		f.frozen.set(nil, f.heldOnly(held))
	}
	return name
}

func (z *frozenMemory) set(ranges, unneeded []memmap.FileRange) {
	z.ranges, z.unneeded = ranges, unneeded
	z.skip = union(slices.Concat(ranges, unneeded))
}

// heldOnly returns where there are no other references than those that are held.
func (f *MemoryFile) heldOnly(held [][]memmap.FileRange) []memmap.FileRange {
	type edge struct {
		at    uint64
		count int
	}
	var edges []edge
	for _, ranges := range held {
		for _, fr := range ranges {
			edges = append(edges, edge{fr.Start, 1}, edge{fr.End, -1})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Compare(a.at, b.at) })
	var only []memmap.FileRange
	f.mu.Lock()
	defer f.mu.Unlock()
	count := 0
	for i, e := range edges {
		count += e.count
		if count == 0 || edges[i+1].at == e.at {
			continue
		}
		f.forEachChunk(memmap.FileRange{Start: e.at, End: edges[i+1].at}, func(chunk *chunkInfo, fr memmap.FileRange) bool {
			unfree := &f.unfreeSmall
			if chunk.huge {
				unfree = &f.unfreeHuge
			}
			unfree.VisitFullRange(fr, func(seg unfreeIterator) bool {
				if seg.ValuePtr().refs == uint64(count) {
					only = append(only, seg.Range().Intersect(fr))
				}
				return true
			})
			return true
		})
	}
	return union(only)
}

// Freeze takes references on ranges, until Thaw, and leaves them out of the checkpoint that is
// written. Ranges may overlap.
//
// Preconditions: No task runs; a reference is held on all pages; every mapping through which
// they could be written is copy-on-write.
func (f *MemoryFile) Freeze(name string, ranges []memmap.FileRange) {
	ranges = union(ranges)
	for _, fr := range ranges {
		f.IncRef(fr, 0)
	}
	f.frozen.mu.Lock()
	defer f.frozen.mu.Unlock()
	if f.frozen.held == nil {
		f.frozen.held = map[string][]memmap.FileRange{}
	}
	f.frozen.held[name] = ranges
	// What earlier checkpoints froze is not in this one either.
	all := slices.Clone(ranges)
	for _, held := range f.frozen.held {
		all = append(all, held...)
	}
	f.frozen.name = name
	f.frozen.set(union(all), nil)
	f.frozen.setPages()
}

// setPages notes on which pages references are held.
//
// Preconditions: z.mu must be locked.
func (z *frozenMemory) setPages() {
	var all []memmap.FileRange
	for _, held := range z.held {
		all = append(all, held...)
	}
	if all = union(all); len(all) == 0 {
		z.pages.Store(nil)
		return
	}
	z.pages.Store(&all)
}

// Thaw drops the references on what the checkpoint with that name froze. It returns false if
// there is none. If the checkpoint has not begun, it freezes nothing any more.
func (f *MemoryFile) Thaw(name string) bool {
	f.frozen.mu.Lock()
	if f.frozen.next == name {
		f.frozen.next = ""
	}
	ranges, ok := f.frozen.held[name]
	delete(f.frozen.held, name)
	f.frozen.setPages()
	f.frozen.mu.Unlock()
	for _, fr := range ranges {
		f.DecRef(fr)
	}
	return ok
}

// FrozenName returns the name of what the last checkpoint froze; "" for nothing.
func (f *MemoryFile) FrozenName() string { return f.frozen.name }

// UnionSize returns how many bytes are in at least one of the ranges, whose order it changes.
func UnionSize(ranges []memmap.FileRange) (n uint64) {
	for _, fr := range union(ranges) {
		n += fr.Length()
	}
	return n
}

// union sorts and merges ranges.
func union(ranges []memmap.FileRange) []memmap.FileRange {
	sort.Slice(ranges, func(i, j int) bool { return ranges[i].Start < ranges[j].Start })
	var out []memmap.FileRange
	for _, fr := range ranges {
		if n := len(out); n > 0 && fr.Start <= out[n-1].End {
			out[n-1].End = max(out[n-1].End, fr.End)
			continue
		}
		out = append(out, fr)
	}
	return out
}

// prefix returns whether the first page of fr is not in the checkpoint, and where the pages end
// of which that is equally so; at most fr.End.
func (z *frozenMemory) prefix(fr memmap.FileRange) (skip bool, end uint64) {
	return prefix(z.skip, fr)
}

// prefix returns whether the first page of fr is in ranges, and where the pages end of which that is
// equally so; at most fr.End.
func prefix(ranges []memmap.FileRange, fr memmap.FileRange) (in bool, end uint64) {
	i := sort.Search(len(ranges), func(i int) bool { return ranges[i].End > fr.Start })
	switch {
	case i == len(ranges) || ranges[i].Start >= fr.End:
		return false, fr.End
	case ranges[i].Start > fr.Start:
		return false, ranges[i].Start
	}
	return true, min(ranges[i].End, fr.End)
}

// maxFrozenName is the maximum length of a name, in bytes.
const maxFrozenName = 64

// write writes what a checkpoint has of frozen memory.
func (z *frozenMemory) write(w io.Writer) error {
	b := binary.AppendUvarint(nil, uint64(len(z.name)))
	b = append(b, z.name...)
	b = appendRanges(b, z.ranges)
	b = appendRanges(b, z.unneeded)
	z.mu.Lock()
	b = binary.AppendUvarint(b, uint64(len(z.held)))
	for _, held := range z.held {
		b = appendRanges(b, held)
	}
	z.mu.Unlock()
	b = binary.AppendUvarint(b, uint64(len(z.slots)))
	for _, s := range z.slots {
		b = binary.AppendUvarint(b, s.slot)
		b = binary.AppendUvarint(b, uint64(len(s.name)))
		b = append(b, s.name...)
	}
	b = append(binary.LittleEndian.AppendUint32(nil, uint32(len(b))), b...)
	_, err := w.Write(b)
	return err
}

func appendRanges(b []byte, ranges []memmap.FileRange) []byte {
	b = binary.AppendUvarint(b, uint64(len(ranges)))
	at := uint64(0)
	for _, fr := range ranges {
		b = binary.AppendUvarint(b, (fr.Start-at)/hostarch.PageSize)
		b = binary.AppendUvarint(b, fr.Length()/hostarch.PageSize)
		at = fr.End
	}
	return b
}

var errFrozen = errors.New("the ranges of frozen memory are malformed")

// frozenReader reads what write has written. After the first number that is malformed all
// others are 0.
type frozenReader struct {
	rest []byte
	bad  bool
}

func (d *frozenReader) number(most uint64) uint64 {
	v, n := binary.Uvarint(d.rest)
	if n <= 0 || v > most {
		d.bad, d.rest = true, nil
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *frozenReader) text(most uint64) string {
	n := d.number(most)
	if n > uint64(len(d.rest)) {
		d.bad, d.rest = true, nil
		return ""
	}
	text := string(d.rest[:n])
	d.rest = d.rest[n:]
	return text
}

func (d *frozenReader) ranges() (out []memmap.FileRange) {
	const maxPages = 1 << 40
	at := uint64(0)
	for range d.number(uint64(len(d.rest))) { // each has at least a byte
		start := at + d.number(maxPages)*hostarch.PageSize
		at = start + d.number(maxPages)*hostarch.PageSize
		if at <= start || at > 1<<60 {
			d.bad = true
		}
		if d.bad {
			return nil
		}
		out = append(out, memmap.FileRange{Start: start, End: at})
	}
	return out
}

// read reads what write has written, for a MemoryFile with these bases.
func (z *frozenMemory) read(r io.Reader, bases *Bases) error {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return err
	}
	d := &frozenReader{rest: make([]byte, binary.LittleEndian.Uint32(size[:]))}
	if _, err := io.ReadFull(r, d.rest); err != nil {
		return err
	}
	name := d.text(maxFrozenName)
	ranges, unneeded := d.ranges(), d.ranges()
	var drop [][]memmap.FileRange
	for range d.number(uint64(len(d.rest))) {
		drop = append(drop, d.ranges())
	}
	var slots []baseSlot
	for range d.number(uint64(len(d.rest))) {
		slots = append(slots, baseSlot{d.number(maxSlot), d.text(maxFrozenName)})
	}
	if d.bad || len(d.rest) != 0 {
		return errFrozen
	}
	if len(ranges) > 0 {
		file := (*BaseFile)(nil)
		if bases != nil {
			file = bases.files[name]
		}
		if file == nil {
			return fmt.Errorf("the base %q with the frozen memory is missing", name)
		}
		if ranges[len(ranges)-1].End > file.size {
			return fmt.Errorf("the base %q with the frozen memory is too small", name)
		}
	}
	if bases == nil && len(slots) > 0 {
		return fmt.Errorf("the base %q with pages of files is missing", slots[0].name)
	}
	if bases != nil {
		if err := bases.setSlots(slots); err != nil {
			return err
		}
	}
	z.name, z.drop = name, drop
	z.set(ranges, unneeded)
	return nil
}

// DropHeld drops the references that the kernel that wrote the checkpoint held for others. f
// is loaded, or its loading has begun; no task runs.
func (f *MemoryFile) DropHeld() {
	drop := f.frozen.drop
	f.frozen.name, f.frozen.drop = "", nil
	f.frozen.set(nil, nil)
	for _, ranges := range drop {
		for _, fr := range ranges {
			f.DecRef(fr)
		}
	}
}
