package pgalloc

import (
	"cmp"
	"fmt"
	"slices"

	"gvisor.dev/gvisor/pkg/context"
	"gvisor.dev/gvisor/pkg/errors/linuxerr"
	"gvisor.dev/gvisor/pkg/hostarch"
	"gvisor.dev/gvisor/pkg/safemem"
	"gvisor.dev/gvisor/pkg/sentry/memmap"
)

// PageUser has pages in a MemoryFile, and copies those that are shared before it writes them:
// frozen pages of the MemoryFile, and pages of bases. It says where its pages are by places.
//
// A place is an offset in the MemoryFile, or the slot of a base and an offset there. Places of
// successive pages are successive numbers.
type PageUser interface {
	// FreezePages makes pages read-only, in so far as they are mapped, and appends those that
	// are in f to ranges. No task runs.
	FreezePages(f *MemoryFile, ranges []memmap.FileRange) []memmap.FileRange

	// RebasePages replaces pages of f by those of bases with the same content, and appends
	// what was replaced to ranges, whose references the caller drops. No task runs.
	RebasePages(f *MemoryFile, ranges []memmap.FileRange) []memmap.FileRange

	// PullPages replaces pages of the bases by copies in f. No task runs.
	PullPages(ctx context.Context, f *MemoryFile, pull map[*BaseFile]bool) error

	// BasePages adds to ranges, for each base, which parts of it the user refers to.
	BasePages(f *MemoryFile, ranges map[*BaseFile][]memmap.FileRange)
}

// slotShift is the position of the slot in a place. Slot 0 is the MemoryFile.
const slotShift = 56

// maxSlot is the maximum number of a slot.
const maxSlot = 1<<(64-slotShift) - 1

// AddPageUser registers a user of f's pages, until RemovePageUser.
func (f *MemoryFile) AddPageUser(u PageUser) {
	f.pageUsersMu.Lock()
	defer f.pageUsersMu.Unlock()
	if f.pageUsers == nil {
		f.pageUsers = map[PageUser]struct{}{}
	}
	f.pageUsers[u] = struct{}{}
}

// RemovePageUser reverts AddPageUser.
func (f *MemoryFile) RemovePageUser(u PageUser) {
	f.pageUsersMu.Lock()
	defer f.pageUsersMu.Unlock()
	delete(f.pageUsers, u)
}

// PageUsers returns the registered users.
func (f *MemoryFile) PageUsers() []PageUser {
	f.pageUsersMu.Lock()
	defer f.pageUsersMu.Unlock()
	all := make([]PageUser, 0, len(f.pageUsers))
	for u := range f.pageUsers {
		all = append(all, u)
	}
	return all
}

// SharesPages reports whether any page may be shared.
func (f *MemoryFile) SharesPages() bool { return f.bases != nil || f.frozen.pages.Load() != nil }

// Shared returns how many of the bytes at a place, at most length, are all shared or all not, and
// whether they are.
func (f *MemoryFile) Shared(place, length uint64) (uint64, bool) {
	if place>>slotShift != 0 {
		return length, true
	}
	pages := f.frozen.pages.Load()
	if pages == nil {
		return length, false
	}
	frozen, end := prefix(*pages, memmap.FileRange{Start: place, End: place + length})
	return end - place, frozen
}

// At returns the file and the offset of a place. The file is nil if there is no such place.
func (f *MemoryFile) At(place uint64) (memmap.File, uint64) {
	slot, off := place>>slotShift, place&(1<<slotShift-1)
	if slot == 0 {
		return f, off
	}
	if base := f.bases.inSlot(slot); base != nil {
		return base, off
	}
	return nil, off
}

// BaseAt returns the base of a place, and the offset in it; nil for a place in the MemoryFile.
func (f *MemoryFile) BaseAt(place uint64) (*BaseFile, uint64) {
	file, off := f.At(place)
	base, _ := file.(*BaseFile)
	return base, off
}

// ReadAt returns the internal mapping of the bytes at a place.
func (f *MemoryFile) ReadAt(place memmap.FileRange) (safemem.BlockSeq, error) {
	file, off := f.At(place.Start)
	if file == nil {
		return safemem.BlockSeq{}, linuxerr.EFAULT
	}
	return file.MapInternal(memmap.FileRange{Start: off, End: off + place.Length()}, hostarch.Read)
}

// DropAt drops the reference on the pages at a place. There are none on those of bases.
func (f *MemoryFile) DropAt(place memmap.FileRange) {
	if place.Start>>slotShift == 0 {
		f.DecRef(place)
	}
}

// CopyPages returns a copy of the pages at a place, with one reference.
func (f *MemoryFile) CopyPages(place memmap.FileRange, opts AllocOpts) (memmap.FileRange, error) {
	from, err := f.ReadAt(place)
	if err != nil {
		return memmap.FileRange{}, err
	}
	reader := safemem.BlockSeqReader{Blocks: from}
	opts.Mode = AllocateAndWritePopulate
	opts.ReaderFunc = reader.ReadToBlocks
	fr, err := f.Allocate(place.Length(), opts)
	if err == nil && fr.Length() != place.Length() {
		err = linuxerr.EFAULT
	}
	if err != nil {
		if fr.Length() != 0 {
			f.DecRef(fr)
		}
		return memmap.FileRange{}, err
	}
	return fr, nil
}

// checkInternal returns an error if a range may not be mapped internally with at: it is not of
// the MemoryFile, or would let frozen pages be written.
func (f *MemoryFile) checkInternal(fr memmap.FileRange, at hostarch.AccessType) error {
	if fr.End>>slotShift != 0 {
		return linuxerr.EFAULT
	}
	if !at.Write {
		return nil
	}
	if n, frozen := f.Shared(fr.Start, fr.Length()); frozen || n != fr.Length() {
		return linuxerr.EACCES
	}
	return nil
}

// place returns the place of an offset in the base.
func (b *BaseFile) place(off uint64) uint64 { return b.slot<<slotShift | off }

// PlaceOf returns the first part of fr, a range of the MemoryFile, whose content is in a base, and
// the place there.
//
// Preconditions: As for RebasePages.
func (f *MemoryFile) PlaceOf(fr memmap.FileRange) (part memmap.FileRange, place uint64, ok bool) {
	part, base, off, ok := f.bases.Find(fr)
	if !ok || base.slot == 0 {
		return memmap.FileRange{}, 0, false
	}
	return part, base.place(off), true
}

// baseSlot says which base a slot is.
type baseSlot struct {
	slot uint64
	name string
}

func (b *Bases) inSlot(slot uint64) *BaseFile {
	if b == nil || slot > maxSlot {
		return nil
	}
	return b.slots[slot]
}

// setSlots gives bases the slots that they have in a checkpoint, and the others slots that are free.
func (b *Bases) setSlots(given []baseSlot) error {
	for _, s := range given {
		switch base := b.files[s.name]; {
		case base == nil:
			return fmt.Errorf("the base %q with pages of files is missing", s.name)
		case s.slot == 0 || s.slot > maxSlot || b.slots[s.slot] != nil || base.slot != 0:
			return fmt.Errorf("slot %d is not one for base %q", s.slot, s.name)
		default:
			base.slot, b.slots[s.slot] = s.slot, base
		}
	}
	free := uint64(1)
	for _, base := range b.All() {
		if base.slot != 0 {
			continue
		}
		for free <= maxSlot && b.slots[free] != nil {
			free++
		}
		if free > maxSlot {
			return fmt.Errorf("more than %d bases", maxSlot)
		}
		base.slot, b.slots[free] = free, base
	}
	return nil
}

// SaveSlots makes the checkpoint that begins say which slots the bases have. Users of pages
// refer to them.
func (f *MemoryFile) SaveSlots(used map[*BaseFile][]memmap.FileRange) {
	f.frozen.slots = nil
	for base := range used {
		base.MarkSaved()
		f.frozen.slots = append(f.frozen.slots, baseSlot{base.slot, base.name})
	}
	slices.SortFunc(f.frozen.slots, func(a, b baseSlot) int { return cmp.Compare(a.slot, b.slot) })
}

// Unmapped returns the parts of ranges, on each of which its owner has one reference, on which only
// the owner and earlier checkpoints have references. Ranges do not overlap.
func (f *MemoryFile) Unmapped(ranges []memmap.FileRange) []memmap.FileRange {
	owned := union(ranges)
	f.frozen.mu.Lock()
	counted := [][]memmap.FileRange{owned}
	for _, held := range f.frozen.held {
		counted = append(counted, held)
	}
	f.frozen.mu.Unlock()
	return intersection(f.heldOnly(counted), owned)
}

// intersection returns what is in both of two sets of ranges, each disjoint and in ascending order.
func intersection(a, b []memmap.FileRange) (out []memmap.FileRange) {
	for len(a) > 0 && len(b) > 0 {
		if fr := a[0].Intersect(b[0]); fr.Length() != 0 {
			out = append(out, fr)
		}
		if a[0].End < b[0].End {
			a = a[1:]
		} else {
			b = b[1:]
		}
	}
	return out
}
