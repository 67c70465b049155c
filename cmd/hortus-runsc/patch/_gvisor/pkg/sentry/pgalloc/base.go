package pgalloc

import (
	"fmt"
	"sort"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/atomicbitops"
	"gvisor.dev/gvisor/pkg/errors/linuxerr"
	"gvisor.dev/gvisor/pkg/hostarch"
	"gvisor.dev/gvisor/pkg/safemem"
	"gvisor.dev/gvisor/pkg/sentry/checkpoint"
	"gvisor.dev/gvisor/pkg/sentry/memmap"
	"gvisor.dev/gvisor/pkg/sync"
)

// baseContainer is the container name in the resource IDs of BaseFiles. No container has it.
const baseContainer = "\x00base"

// BaseFile is a memmap.File for the pages file of a checkpoint. Its pages are shared with
// every process that maps the same file, and are never written: private mappings refer to
// them until the first write.
//
// A BaseFile holds no references on its pages: all of them live as long as it does, which
// is as long as the kernel.
type BaseFile struct {
	memmap.DefaultMemoryType
	memmap.NoBufferedIOFallback

	// Immutable fields:
	name string
	fd   int
	size uint64
	addr uintptr // of the internal mapping of the whole file

	// slot is the number of the base in places. It is set by MemoryFile.LoadFrom, and immutable
	// after that; 0 before.
	slot uint64

	// breaks is the number of copy-on-write breaks of mappings of the file.
	breaks atomicbitops.Uint64

	// saved is true if the last checkpoint refers to the file.
	saved atomicbitops.Bool
}

// NewBaseFile maps the pages file fd, which must not change any more. The BaseFile owns fd
// if the error is nil. name identifies the content in checkpoints that refer to it.
func NewBaseFile(name string, fd int) (*BaseFile, error) {
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return nil, fmt.Errorf("base %s: %w", name, err)
	}
	b := &BaseFile{name: name, fd: fd, size: uint64(stat.Size)}
	switch {
	case name == "":
		return nil, fmt.Errorf("a base without a name")
	case stat.Size < 0 || !hostarch.IsPageAligned(b.size):
		return nil, fmt.Errorf("base %s: size %d is not a multiple of the page size", name, stat.Size)
	case stat.Size == 0:
		return b, nil
	}
	// Applications may have executable private memory.
	exec, err := mapBase(fd, hostarch.PageSize, unix.PROT_READ|unix.PROT_EXEC)
	if err != nil {
		return nil, fmt.Errorf("base %s cannot be mapped executable: %w", name, err)
	}
	unmapBase(exec, hostarch.PageSize)
	if b.addr, err = mapBase(fd, b.size, unix.PROT_READ); err != nil {
		return nil, fmt.Errorf("base %s cannot be mapped: %w", name, err)
	}
	return b, nil
}

func mapBase(fd int, size uint64, prot uintptr) (uintptr, error) {
	addr, _, errno := unix.Syscall6(unix.SYS_MMAP, 0, uintptr(size), prot, unix.MAP_SHARED, uintptr(fd), 0)
	if errno != 0 {
		return 0, errno
	}
	return addr, nil
}

func unmapBase(addr uintptr, size uint64) {
	if _, _, errno := unix.RawSyscall(unix.SYS_MUNMAP, addr, uintptr(size), 0); errno != 0 {
		panic(fmt.Sprintf("munmap of a base: %v", errno))
	}
}

// Name returns the name of the content.
func (b *BaseFile) Name() string { return b.name }

// Size returns the size of the file in bytes.
func (b *BaseFile) Size() uint64 { return b.size }

// Allocated returns how many bytes of the file its file system stores, which for a file in memory
// are those of its pages.
func (b *BaseFile) Allocated() uint64 {
	var stat unix.Stat_t
	if err := unix.Fstat(b.fd, &stat); err != nil || stat.Blocks < 0 {
		return b.size
	}
	return uint64(stat.Blocks) * 512
}

// ResourceID identifies the file in a checkpoint.
func (b *BaseFile) ResourceID() checkpoint.ResourceID {
	return checkpoint.ResourceID{ContainerName: baseContainer, Path: b.name}
}

// IsBaseID reports whether a resource ID is that of a BaseFile.
func IsBaseID(id checkpoint.ResourceID) bool { return id.ContainerName == baseContainer }

// MarkSaved notes that the checkpoint that is being written refers to the file.
func (b *BaseFile) MarkSaved() { b.saved.Store(true) }

// Limits of BreakUnit. With the smallest unit alone a task that writes all of a large base
// would have more mappings than the host allows a process.
const (
	minBreakUnit   = 16 << 10
	maxBreakShift  = 7 // 2 MiB
	breaksPerShift = 2048
)

// BreakUnit returns the size of the naturally aligned block of memory that is copied at a
// write fault, a power of two, and counts the fault. It grows with the number of faults.
func (b *BaseFile) BreakUnit() uint64 {
	return minBreakUnit << min(maxBreakShift, (b.breaks.Add(1)-1)/breaksPerShift)
}

// IncRef implements memmap.File.IncRef.
func (b *BaseFile) IncRef(fr memmap.FileRange, memCgID uint32) {}

// DecRef implements memmap.File.DecRef.
func (b *BaseFile) DecRef(fr memmap.FileRange) {}

// MapInternal implements memmap.File.MapInternal.
func (b *BaseFile) MapInternal(fr memmap.FileRange, at hostarch.AccessType) (safemem.BlockSeq, error) {
	if at.Write || at.Execute {
		return safemem.BlockSeq{}, linuxerr.EACCES
	}
	if !b.contains(fr) {
		return safemem.BlockSeq{}, linuxerr.EFAULT
	}
	return safemem.BlockSeqOf(b.block(fr)), nil
}

// DataFD implements memmap.File.DataFD.
func (b *BaseFile) DataFD(fr memmap.FileRange) (int, error) {
	if !b.contains(fr) {
		return -1, linuxerr.EFAULT
	}
	return b.fd, nil
}

// FD implements memmap.File.FD.
func (b *BaseFile) FD() int { return b.fd }

func (b *BaseFile) contains(fr memmap.FileRange) bool {
	return fr.WellFormed() && fr.Length() > 0 && fr.End <= b.size
}

// Bases are the pages files that the memory of a restored kernel refers to: that of
// the checkpoint it was restored from, and those that this checkpoint refers to.
type Bases struct {
	// own is the pages file of the checkpoint. files are all, by their names. Both are
	// immutable.
	own   *BaseFile
	files map[string]*BaseFile

	// slots are the bases by their numbers in places. It is written by MemoryFile.LoadFrom, and
	// immutable after that.
	slots [maxSlot + 1]*BaseFile

	// pages says where own has pages of the main MemoryFile, in ascending order. It is
	// written by MemoryFile.LoadFrom, and immutable until Rebase.
	pages []basePages

	mu sync.Mutex
	// loaded are called by Rebase. It is protected by mu.
	loaded []func()
	// copyAll is true if the next checkpoint must not refer to any base, and copyNames are
	// those that it must not refer to. They are protected by mu.
	copyAll   bool
	copyNames map[string]bool
}

// basePages says that a range of the main MemoryFile is in a file at off.
type basePages struct {
	memmap.FileRange
	file *BaseFile
	off  uint64
}

// NewBases returns the files for a restore: the checkpoint's own, and the others that it
// refers to.
func NewBases(own *BaseFile, others ...*BaseFile) (*Bases, error) {
	b := &Bases{own: own, files: map[string]*BaseFile{own.name: own}}
	for _, o := range others {
		if b.files[o.name] != nil {
			return nil, fmt.Errorf("two bases are called %s", o.name)
		}
		b.files[o.name] = o
	}
	return b, nil
}

// SetBases makes the private memory that is loaded with f refer to b. It must be called
// before f.LoadFrom.
func (f *MemoryFile) SetBases(b *Bases) { f.bases = b }

// Bases returns the files that private memory refers to, or nil if there are none.
func (f *MemoryFile) Bases() *Bases { return f.bases }

// File returns the file with a resource ID, or nil.
func (b *Bases) File(id checkpoint.ResourceID) *BaseFile {
	if b == nil || !IsBaseID(id) {
		return nil
	}
	return b.files[id.Path]
}

// Own returns the pages file of the checkpoint.
func (b *Bases) Own() *BaseFile { return b.own }

// All returns all files.
func (b *Bases) All() []*BaseFile {
	if b == nil {
		return nil
	}
	all := make([]*BaseFile, 0, len(b.files))
	for _, f := range b.files {
		all = append(all, f)
	}
	sort.Slice(all, func(i, j int) bool { return all[i].name < all[j].name })
	return all
}

// Copy makes the next checkpoint refer to none of the named bases, or to none at all if
// there are no names: what it refers to in them becomes part of it.
func (b *Bases) Copy(names []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.copyAll = len(names) == 0
	b.copyNames = map[string]bool{}
	for _, n := range names {
		b.copyNames[n] = true
	}
}

// BeginSave forgets which files the last checkpoint referred to, and returns those that the
// one that begins must not refer to.
func (b *Bases) BeginSave() map[*BaseFile]bool {
	for _, f := range b.All() {
		f.saved.Store(false)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	not := map[*BaseFile]bool{}
	for name, f := range b.files {
		if b.copyAll || b.copyNames[name] {
			not[f] = true
		}
	}
	b.copyAll, b.copyNames = false, nil
	return not
}

// Saved returns the files that the last checkpoint refers to.
func (b *Bases) Saved() []*BaseFile {
	var saved []*BaseFile
	for _, f := range b.All() {
		if f.saved.Load() {
			saved = append(saved, f)
		}
	}
	return saved
}

// add notes where pages of the main MemoryFile are. Ranges are added in ascending order.
func (b *Bases) add(fr memmap.FileRange, off uint64) {
	if b == nil {
		return
	}
	if n := len(b.pages); n > 0 {
		if last := &b.pages[n-1]; last.End == fr.Start && last.off+last.Length() == off {
			last.End = fr.End
			return
		}
	}
	b.pages = append(b.pages, basePages{fr, b.own, off})
}

// Find returns the first part of fr, a range of the main MemoryFile, whose content is in a
// base, that base, and the offset there.
func (b *Bases) Find(fr memmap.FileRange) (part memmap.FileRange, file *BaseFile, off uint64, ok bool) {
	i := sort.Search(len(b.pages), func(i int) bool { return b.pages[i].End > fr.Start })
	if i == len(b.pages) || b.pages[i].Start >= fr.End {
		return memmap.FileRange{}, nil, 0, false
	}
	p := b.pages[i]
	part = p.Intersect(fr)
	return part, p.file, p.off + (part.Start - p.Start), true
}

// OnRebase registers fn, which makes loaded private memory refer to the files.
func (b *Bases) OnRebase(fn func()) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.loaded = append(b.loaded, fn)
}

// Rebase calls the registered functions. f is the main MemoryFile, whose metadata is
// loaded; no task runs.
func (b *Bases) Rebase(f *MemoryFile) {
	b.mu.Lock()
	loaded := b.loaded
	b.loaded = nil
	b.mu.Unlock()
	if len(f.frozen.ranges) > 0 {
		file := b.files[f.frozen.name]
		for _, fr := range f.frozen.ranges {
			b.pages = append(b.pages, basePages{fr, file, fr.Start})
		}
		sort.Slice(b.pages, func(i, j int) bool { return b.pages[i].Start < b.pages[j].Start })
	}
	for _, fn := range loaded {
		fn()
	}
	var replaced []memmap.FileRange
	for _, u := range f.PageUsers() {
		replaced = u.RebasePages(f, replaced)
	}
	for _, fr := range union(replaced) {
		f.DecRef(fr)
	}
	b.pages = nil
	f.DropHeld()
	f.loadedIfEmpty()
}

// LoadOnDemand makes the loader read only what somebody waits for. It must be called before
// MemoryFile.LoadFrom.
func (apfl *AsyncPagesFileLoad) LoadOnDemand() { apfl.onDemand.Store(true) }

// loadedIfEmpty ends the asynchronous loading of f if nothing is left to load, because
// what was has become waste.
func (f *MemoryFile) loadedIfEmpty() {
	amfl := f.asyncPageLoad.Load()
	if amfl == nil {
		return
	}
	amfl.pf.amflsMu.Lock()
	defer amfl.pf.amflsMu.Unlock()
	amfl.pf.mu.Lock()
	defer amfl.pf.mu.Unlock()
	if !amfl.lfDone || f.asyncPageLoad.Load() != amfl {
		return
	}
	if !amfl.unloaded.IsEmpty() {
		amfl.minUnloaded.Store(amfl.unloaded.FirstSegment().Start())
		return
	}
	amfl.minUnloaded.Store(^uint64(0))
	amfl.pf.amfls.Remove(amfl)
	f.asyncPageLoad.Store(nil)
	amfl.timeline.End()
	if amfl.doneCallback != nil {
		amfl.doneCallback(nil)
		amfl.doneCallback = nil
	}
}
