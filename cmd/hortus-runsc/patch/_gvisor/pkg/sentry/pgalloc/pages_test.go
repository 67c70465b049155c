package pgalloc

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/hostarch"
	"gvisor.dev/gvisor/pkg/sentry/memmap"
)

// TestPlaces: a place is in the MemoryFile, in a base, or nowhere.
func TestPlaces(t *testing.T) {
	fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	f, err := NewMemoryFile(os.NewFile(uintptr(fd), "test"), MemoryFileOpts{DisableMemoryAccounting: true})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Destroy()
	if f.SharesPages() {
		t.Error("a new MemoryFile shares pages")
	}
	base := baseOf(t, "a", pagesFile(t, 3))
	bases, err := NewBases(base)
	if err != nil {
		t.Fatal(err)
	}
	if err := bases.setSlots([]baseSlot{{maxSlot, "a"}}); err != nil {
		t.Fatal(err)
	}
	f.SetBases(bases)
	at := base.place(page)
	if got, off := f.At(at); got != memmap.File(base) || off != page {
		t.Errorf("%v at %d", got, off)
	}
	if got, off := f.At(page); got != memmap.File(f) || off != page {
		t.Errorf("%v at %d", got, off)
	}
	if n, shared := f.Shared(at, page); n != page || !shared {
		t.Errorf("of a base: %d, %v", n, shared)
	}
	two := memmap.FileRange{Start: at, End: at + 2*page}
	copied, err := f.CopyPages(two, AllocOpts{})
	if err != nil {
		t.Fatal(err)
	}
	ims, err := f.MapInternal(copied, hostarch.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	if b := ims.Head().ToSlice(); b[0] != 2 || b[2*page-1] != 3 {
		t.Errorf("the copy has %d and %d", b[0], b[2*page-1])
	}
	f.DropAt(two) // is of a base
	f.DropAt(copied)
	for what, bad := range map[string]memmap.FileRange{
		"no base":       {Start: 5<<slotShift | page, End: 5<<slotShift | 2*page},
		"behind a base": {Start: base.place(2 * page), End: base.place(4 * page)},
	} {
		if _, err := f.ReadAt(bad); err == nil {
			t.Errorf("%s: read", what)
		}
		if _, err := f.CopyPages(bad, AllocOpts{}); err == nil {
			t.Errorf("%s: copied", what)
		}
		if _, err := f.MapInternal(bad, hostarch.Read); err == nil {
			t.Errorf("%s: is mapped as one of the MemoryFile", what)
		}
	}
}

// TestFrozenIsNotMappedToWrite: not even a part of a range that is frozen.
func TestFrozenIsNotMappedToWrite(t *testing.T) {
	f, fr := allocated(t, 4)
	part := func(start, end uint64) memmap.FileRange {
		return memmap.FileRange{Start: fr.Start + start*page, End: fr.Start + end*page}
	}
	f.Freeze("a", []memmap.FileRange{part(1, 2)})
	for _, c := range []struct {
		fr     memmap.FileRange
		at     hostarch.AccessType
		mapped bool
	}{
		{part(0, 1), hostarch.Write, true},
		{part(1, 2), hostarch.Write, false},
		{part(0, 4), hostarch.ReadWrite, false},
		{part(2, 4), hostarch.ReadWrite, true},
		{part(0, 4), hostarch.Read, true},
	} {
		if _, err := f.MapInternal(c.fr, c.at); (err == nil) != c.mapped {
			t.Errorf("%v of %v, %v: %v", c.fr, fr, c.at, err)
		}
	}
	f.Thaw("a")
	if _, err := f.MapInternal(fr, hostarch.Write); err != nil {
		t.Errorf("after the thaw: %v", err)
	}
	f.DecRef(fr)
}
