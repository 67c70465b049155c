package tmpfs

import (
	goContext "context"
	"fmt"

	"gvisor.dev/gvisor/pkg/context"
	"gvisor.dev/gvisor/pkg/errors/linuxerr"
	"gvisor.dev/gvisor/pkg/hostarch"
	"gvisor.dev/gvisor/pkg/sentry/fsutil"
	"gvisor.dev/gvisor/pkg/sentry/memmap"
	"gvisor.dev/gvisor/pkg/sentry/pgalloc"
)

// The values in regularFile.data are places of pages: see pgalloc.PageUser. Shared pages are copied
// before they are written. Where they are mapped meanwhile, all of these hold:
//
//   - A translation of shared pages never allows writing.
//   - If the file may be written through a mapping (regularFile.unshare), there is no translation of
//     shared pages: Translate copies them also to be read. It cannot invalidate the translations
//     of others.
//   - Otherwise only writes to the file replace pages, and they invalidate the translations of what
//     they replaced, before they write.

// maxCopy is the maximum number of bytes that are copied at once.
const maxCopy = 16 << 20

// afterLoad is called by stateify.
func (rf *regularFile) afterLoad(ctx goContext.Context) {
	rf.unshare = rf.writableMappingPages > 0
	// The filesystem may not be loaded yet. Pages of another MemoryFile are not shared.
	rf.usePages(pgalloc.MemoryFileFromContext(ctx))
}

// usePages registers the file with f, in which its pages are.
func (rf *regularFile) usePages(f *pgalloc.MemoryFile) {
	rf.pageUserOf = f
	f.AddPageUser(rf)
}

// dropPages ends what usePages began. Nobody uses the file any more.
func (rf *regularFile) dropPages() { rf.pageUserOf.RemovePageUser(rf) }

// beginUnshare makes all pages that are mapped from now on ones that are not shared.
//
// Preconditions: rf.mapsMu must be locked.
func (rf *regularFile) beginUnshare() {
	rf.dataMu.Lock()
	was := rf.unshare
	rf.unshare = true
	rf.dataMu.Unlock()
	if !was {
		rf.mappings.InvalidateAll(memmap.InvalidateOpts{})
	}
}

// endUnshare lets shared pages be mapped.
func (rf *regularFile) endUnshare() {
	rf.dataMu.Lock()
	rf.unshare = false
	rf.dataMu.Unlock()
}

// copyShared replaces the shared pages in mr by copies, and returns the range that has all of those it
// replaced, which the caller must invalidate unless there are no translations of them.
//
// Preconditions: rf.dataMu must be locked for writing; mr is page-aligned.
func (rf *regularFile) copyShared(mr memmap.MappableRange, memCgID uint32) (memmap.MappableRange, error) {
	mf := rf.inode.fs.mf
	if !mf.SharesPages() {
		return memmap.MappableRange{}, nil
	}
	return rf.copyPages(mr, memCgID, func(place memmap.FileRange) (uint64, bool) {
		return mf.Shared(place.Start, place.Length())
	})
}

// copyPages replaces those pages in mr by copies for which must returns true, as it does for the first
// bytes of a range, how many it says. It returns the range that has all of those it replaced.
//
// Preconditions: As for copyShared.
func (rf *regularFile) copyPages(mr memmap.MappableRange, memCgID uint32, must func(memmap.FileRange) (uint64, bool)) (copied memmap.MappableRange, err error) {
	mf := rf.inode.fs.mf
	for at := mr.Start; at < mr.End; {
		seg := rf.data.LowerBoundSegment(at)
		if !seg.Ok() || seg.Start() >= mr.End {
			break
		}
		part := seg.Range().Intersect(memmap.MappableRange{Start: at, End: mr.End})
		n, copying := must(seg.FileRangeOf(part))
		part.End = part.Start + n
		at = part.End
		if !copying {
			continue
		}
		if part.Length() > maxCopy {
			part.End = part.Start + maxCopy
			at = part.End
		}
		old := seg.FileRangeOf(part)
		fr, err := mf.CopyPages(old, pgalloc.AllocOpts{Kind: rf.memoryUsageKind, MemCgID: memCgID})
		if err != nil {
			return copied, err
		}
		rf.replace(seg, part, fr.Start)
		mf.DropAt(old)
		if copied.Length() == 0 {
			copied.Start = part.Start
		}
		copied.End = part.End
	}
	return copied, nil
}

// replace makes pages of a segment be at another place.
//
// Preconditions: rf.dataMu must be locked for writing.
func (rf *regularFile) replace(seg fsutil.FileRangeIterator, part memmap.MappableRange, place uint64) {
	seg = rf.data.Isolate(seg, part)
	rf.data.Insert(rf.data.Remove(seg), part, place)
}

// unshareToWrite makes the pages in mr ones that may be written.
//
// Preconditions: rf.inode.mu must be locked, and no lock of a memory manager is held.
func (rf *regularFile) unshareToWrite(start, end uint64, memCgID uint32) error {
	if !rf.inode.fs.mf.SharesPages() {
		return nil
	}
	pgend, ok := hostarch.PageRoundUp(end)
	if !ok {
		return linuxerr.EFBIG
	}
	rf.dataMu.Lock()
	copied, err := rf.copyShared(memmap.MappableRange{Start: hostarch.PageRoundDown(start), End: pgend}, memCgID)
	rf.dataMu.Unlock()
	rf.invalidateCopied(copied)
	return err
}

// invalidateCopied invalidates the translations of pages that were replaced by copies. Private memory
// that was copied from them stays.
func (rf *regularFile) invalidateCopied(copied memmap.MappableRange) {
	if copied.Length() == 0 {
		return
	}
	rf.mapsMu.Lock()
	defer rf.mapsMu.Unlock()
	rf.mappings.Invalidate(copied, memmap.InvalidateOpts{})
}

// translations returns where the pages are that a translation of required has, and where they end.
// Of what may be translated beyond required, which is optional, shared pages in fill are copied too if they
// must be.
//
// Preconditions: rf.dataMu must be locked for writing.
func (rf *regularFile) translations(required, fill, optional memmap.MappableRange, at hostarch.AccessType, memCgID uint32) (ts []memmap.Translation, end uint64, err error) {
	mf := rf.inode.fs.mf
	if rf.unshare {
		if _, err = rf.copyShared(fill, memCgID); err != nil {
			_, err = rf.copyShared(required, memCgID)
		}
	}
	for seg := rf.data.FindSegment(required.Start); seg.Ok() && seg.Start() < required.End; seg, _ = seg.NextNonEmpty() {
		for rest := seg.Range().Intersect(optional); rest.Length() != 0 && rest.Start < required.End; {
			place := seg.FileRangeOf(rest)
			n, shared := mf.Shared(place.Start, place.Length())
			part := memmap.MappableRange{Start: rest.Start, End: rest.Start + n}
			rest.Start = part.End
			if part.End <= required.Start {
				continue
			}
			perms := hostarch.AnyAccess
			if shared {
				if rf.unshare || at.Write {
					if err == nil {
						err = linuxerr.EFAULT
					}
					return ts, end, err
				}
				perms = hostarch.ReadExecute
			}
			file, off := mf.At(place.Start)
			if file == nil {
				return ts, end, linuxerr.EFAULT
			}
			ts = append(ts, memmap.Translation{Source: part, File: file, Offset: off, Perms: perms})
			end = part.End
		}
	}
	return ts, end, err
}

var _ pgalloc.PageUser = (*regularFile)(nil)

// FreezePages implements pgalloc.PageUser.FreezePages.
func (rf *regularFile) FreezePages(f *pgalloc.MemoryFile, ranges []memmap.FileRange) []memmap.FileRange {
	if rf.inode.fs.mf != f {
		return ranges
	}
	rf.mapsMu.Lock()
	rf.mappings.InvalidateAll(memmap.InvalidateOpts{})
	rf.mapsMu.Unlock()
	rf.dataMu.RLock()
	defer rf.dataMu.RUnlock()
	for seg := rf.data.FirstSegment(); seg.Ok(); seg = seg.NextSegment() {
		if base, _ := f.BaseAt(seg.Value()); base == nil {
			ranges = append(ranges, seg.FileRange())
		}
	}
	return ranges
}

// RebasePages implements pgalloc.PageUser.RebasePages. Memory managers drop their translations themselves.
func (rf *regularFile) RebasePages(f *pgalloc.MemoryFile, ranges []memmap.FileRange) []memmap.FileRange {
	if rf.inode.fs.mf != f {
		return ranges
	}
	rf.dataMu.Lock()
	defer rf.dataMu.Unlock()
	for seg := rf.data.FirstSegment(); seg.Ok(); {
		base, _ := f.BaseAt(seg.Value())
		if base != nil {
			seg = seg.NextSegment()
			continue
		}
		fr := seg.FileRange()
		part, place, ok := f.PlaceOf(fr)
		if !ok {
			seg = seg.NextSegment()
			continue
		}
		mr := memmap.MappableRange{Start: seg.Start() + part.Start - fr.Start}
		mr.End = mr.Start + part.Length()
		rf.replace(seg, mr, place)
		ranges = append(ranges, part)
		seg = rf.data.LowerBoundSegment(mr.End)
	}
	return ranges
}

// PullPages implements pgalloc.PageUser.PullPages.
func (rf *regularFile) PullPages(ctx context.Context, f *pgalloc.MemoryFile, pull map[*pgalloc.BaseFile]bool) error {
	if rf.inode.fs.mf != f {
		return nil
	}
	rf.dataMu.Lock()
	copied, err := rf.copyPages(memmap.MappableRange{End: hostarch.PageRoundDown(^uint64(0))}, pgalloc.MemoryCgroupIDFromContext(ctx), func(place memmap.FileRange) (uint64, bool) {
		base, _ := f.BaseAt(place.Start)
		return place.Length(), base != nil && pull[base]
	})
	rf.dataMu.Unlock()
	rf.invalidateCopied(copied)
	if err != nil {
		return fmt.Errorf("copying pages of a file: %w", err)
	}
	return nil
}

// BasePages implements pgalloc.PageUser.BasePages.
func (rf *regularFile) BasePages(f *pgalloc.MemoryFile, ranges map[*pgalloc.BaseFile][]memmap.FileRange) {
	if rf.inode.fs.mf != f {
		return
	}
	rf.dataMu.RLock()
	defer rf.dataMu.RUnlock()
	for seg := rf.data.FirstSegment(); seg.Ok(); seg = seg.NextSegment() {
		if base, off := f.BaseAt(seg.Value()); base != nil {
			ranges[base] = append(ranges[base], memmap.FileRange{Start: off, End: off + seg.Range().Length()})
		}
	}
}
