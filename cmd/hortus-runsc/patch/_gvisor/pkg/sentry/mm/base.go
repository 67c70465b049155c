package mm

import (
	"fmt"

	"gvisor.dev/gvisor/pkg/context"
	"gvisor.dev/gvisor/pkg/hostarch"
	"gvisor.dev/gvisor/pkg/safemem"
	"gvisor.dev/gvisor/pkg/sentry/memmap"
	"gvisor.dev/gvisor/pkg/sentry/pgalloc"
	"gvisor.dev/gvisor/pkg/sentry/usage"
)

// rebase makes private pmas refer to the pages file that mm was loaded from, in so far as
// it has their contents, instead of to the MemoryFile, which then need not load them. Of other
// pmas it removes those of such pages: files may have them elsewhere now.
//
// Preconditions: No task runs; nothing of mm is mapped in an AddressSpace.
func (mm *MemoryManager) rebase() {
	bases := mm.mf.Bases()
	mm.activeMu.Lock()
	defer mm.activeMu.Unlock()
	for pseg := mm.pmas.FirstSegment(); pseg.Ok(); {
		pma := pseg.ValuePtr()
		if pma.file != memmap.File(mm.mf) {
			pseg = pseg.NextSegment()
			continue
		}
		// Each round handles the first part of what is left of the pma.
		fr := pseg.fileRange()
		part, file, off, ok := bases.Find(fr)
		if !ok {
			pseg = pseg.NextSegment()
			continue
		}
		if !pma.private {
			mm.removeRSSLocked(pseg.Range())
			mm.mf.DecRef(fr)
			pseg = mm.pmas.Remove(pseg).NextSegment()
			continue
		}
		start := pseg.Start() + hostarch.Addr(part.Start-fr.Start)
		pseg = mm.pmas.Isolate(pseg, hostarch.AddrRange{Start: start, End: start + hostarch.Addr(part.Length())})
		pma = pseg.ValuePtr()
		pma.file = file
		pma.off = off
		pma.needCOW = true
		pma.effectivePerms.Write = false
		pma.maxPerms.Write = false
		pma.huge = false
		pma.internalMappings = safemem.BlockSeq{}
		mm.mf.DecRef(part)
		pseg = pseg.NextSegment()
	}
}

// Freeze makes the private memory of mm in the MemoryFile copy-on-write, and appends where it
// is there to ranges. Its contents do not change any more while other references are held.
//
// Preconditions: No task runs.
func (mm *MemoryManager) Freeze(ranges []memmap.FileRange) []memmap.FileRange {
	mm.activeMu.Lock()
	defer mm.activeMu.Unlock()
	var unmapAR hostarch.AddrRange
	for pseg := mm.pmas.FirstSegment(); pseg.Ok(); pseg = pseg.NextSegment() {
		pma := pseg.ValuePtr()
		if !pma.private || pma.file != memmap.File(mm.mf) {
			continue
		}
		fr := pseg.fileRange()
		if mm.hasPinned && !pma.needCOW {
			// As in Fork: pinned pages must not be made copy-on-write.
			if _, shared := mm.mf.FirstSharedRange(fr); shared {
				continue
			}
		}
		ranges = append(ranges, fr)
		if pma.needCOW {
			continue
		}
		pma.needCOW = true
		if pma.effectivePerms.Write {
			if unmapAR.End == pseg.Start() {
				unmapAR.End = pseg.End()
			} else {
				mm.unmapASLocked(unmapAR)
				unmapAR = pseg.Range()
			}
			pma.effectivePerms.Write = false
		}
		pma.maxPerms.Write = false
	}
	mm.unmapASLocked(unmapAR)
	return ranges
}

// breakRange returns the addresses whose copy-on-write is broken with ar, of which p maps
// the first. Pages of a base are shared with other sandboxes, so that fewer are copied than
// of the MemoryFile, in which a huge page costs no more than its pages.
func breakRange(p *pma, ar, huge hostarch.AddrRange) hostarch.AddrRange {
	base, ok := p.file.(*pgalloc.BaseFile)
	if !ok {
		return huge
	}
	unit := hostarch.Addr(base.BreakUnit())
	start := ar.Start &^ (unit - 1)
	end := (ar.End + unit - 1) &^ (unit - 1)
	if end < ar.End {
		end = ar.End
	}
	return hostarch.AddrRange{Start: start, End: end}
}

// maxPull is the maximum number of bytes that are copied at once.
const maxPull = 16 << 20

// BaseUsage adds to sizes, for each base, how many bytes of it are private memory of mm.
//
// Preconditions: No task runs.
func (mm *MemoryManager) BaseUsage(sizes map[*pgalloc.BaseFile]uint64) {
	mm.activeMu.RLock()
	defer mm.activeMu.RUnlock()
	for pseg := mm.pmas.FirstSegment(); pseg.Ok(); pseg = pseg.NextSegment() {
		if base, ok := pseg.ValuePtr().file.(*pgalloc.BaseFile); ok && pseg.ValuePtr().private {
			sizes[base] += uint64(pseg.Range().Length())
		}
	}
}

// BaseRanges adds to ranges, for each base, which parts of it mm refers to. Parts may overlap.
func (mm *MemoryManager) BaseRanges(ranges map[*pgalloc.BaseFile][]memmap.FileRange) {
	mm.activeMu.RLock()
	defer mm.activeMu.RUnlock()
	for pseg := mm.pmas.FirstSegment(); pseg.Ok(); pseg = pseg.NextSegment() {
		if base, ok := pseg.ValuePtr().file.(*pgalloc.BaseFile); ok {
			ranges[base] = append(ranges[base], pseg.fileRange())
		}
	}
}

// PullBases copies what mm refers to in the given bases into the MemoryFile, so that it does
// not refer to them any more.
//
// Preconditions: No task runs.
func (mm *MemoryManager) PullBases(ctx context.Context, pull map[*pgalloc.BaseFile]bool) error {
	memCgID := pgalloc.MemoryCgroupIDFromContext(ctx)
	mm.activeMu.Lock()
	defer mm.activeMu.Unlock()
	for pseg := mm.pmas.FirstSegment(); pseg.Ok(); pseg = pseg.NextSegment() {
		base, ok := pseg.ValuePtr().file.(*pgalloc.BaseFile)
		if !ok || !pull[base] {
			continue
		}
		if !pseg.ValuePtr().private {
			// The file has copied its pages, and has invalidated the translations of all.
			return fmt.Errorf("%v is still a translation of base %s", pseg.Range(), base.Name())
		}
		ar := pseg.Range()
		if ar.Length() > maxPull {
			ar.End = ar.Start + maxPull
			pseg = mm.pmas.Isolate(pseg, ar)
		}
		if err := pseg.getInternalMappingsLocked(); err != nil {
			return err
		}
		reader := safemem.BlockSeqReader{Blocks: mm.internalMappingsLocked(pseg, ar)}
		fr, err := mm.mf.Allocate(uint64(ar.Length()), pgalloc.AllocOpts{
			Kind:       usage.Anonymous,
			MemCgID:    memCgID,
			Mode:       pgalloc.AllocateAndWritePopulate,
			ReaderFunc: reader.ReadToBlocks,
		})
		if err != nil {
			if fr.Length() != 0 {
				mm.mf.DecRef(fr)
			}
			return err
		}
		mm.unmapASLocked(ar)
		// The next write finds that mm has the only reference, and takes it. If a fork
		// shares the pages, each of both has a copy from here on.
		p := pseg.ValuePtr()
		p.file = mm.mf
		p.off = fr.Start
		p.internalMappings = safemem.BlockSeq{}
	}
	return nil
}
