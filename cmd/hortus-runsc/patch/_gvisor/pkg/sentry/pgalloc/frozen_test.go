package pgalloc

import (
	"bytes"
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/sentry/memmap"
)

func pages(start, end uint64) memmap.FileRange {
	return memmap.FileRange{Start: start * page, End: end * page}
}

// allocated makes a memory file with some pages.
func allocated(t *testing.T, n uint64) (*MemoryFile, memmap.FileRange) {
	t.Helper()
	fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	f, err := NewMemoryFile(os.NewFile(uintptr(fd), "test"), MemoryFileOpts{DisableMemoryAccounting: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Destroy)
	fr, err := f.Allocate(n*page, AllocOpts{Mode: AllocateAndCommit})
	if err != nil {
		t.Fatal(err)
	}
	return f, fr
}

func TestFrozenPrefix(t *testing.T) {
	var z frozenMemory
	z.set([]memmap.FileRange{pages(2, 4)}, []memmap.FileRange{pages(6, 7)})
	for _, c := range []struct {
		in     memmap.FileRange
		frozen bool
		end    uint64
	}{
		{pages(0, 10), false, 2},
		{pages(2, 10), true, 4},
		{pages(3, 4), true, 4},
		{pages(2, 3), true, 3},
		{pages(4, 10), false, 6},
		{pages(4, 5), false, 5},
		{pages(7, 10), false, 10},
	} {
		if frozen, end := z.prefix(c.in); frozen != c.frozen || end != c.end*page {
			t.Errorf("%v: %v to %d, want %v to %d", c.in, frozen, end/page, c.frozen, c.end)
		}
	}
}

func TestFrozenIsReadAsWritten(t *testing.T) {
	base := baseOf(t, "live", pagesFile(t, 8))
	bases, err := NewBases(base)
	if err != nil {
		t.Fatal(err)
	}
	for _, z := range []*frozenMemory{
		{},
		{name: "live", ranges: []memmap.FileRange{pages(0, 1), pages(3, 8)}, held: map[string][]memmap.FileRange{"live": {pages(0, 1)}}},
		{held: map[string][]memmap.FileRange{"a": {pages(0, 1), pages(2, 3)}}, unneeded: []memmap.FileRange{pages(2, 3)}},
		{slots: []baseSlot{{7, "live"}}},
	} {
		base.slot, bases.slots = 0, [maxSlot + 1]*BaseFile{}
		var b bytes.Buffer
		if err := z.write(&b); err != nil {
			t.Fatal(err)
		}
		b.WriteString("what follows")
		var got frozenMemory
		if err := got.read(&b, bases); err != nil || got.name != z.name || !slices.Equal(got.ranges, z.ranges) || !slices.Equal(got.unneeded, z.unneeded) || !slices.Equal(got.skip, union(slices.Concat(z.ranges, z.unneeded))) || len(got.drop) != len(z.held) || b.String() != "what follows" {
			t.Errorf("%q %v, %v; %q is left", got.name, got.ranges, err, b.String())
		}
		for name, held := range z.held {
			if !slices.Equal(got.drop[0], held) {
				t.Errorf("%s: %v, want %v", name, got.drop[0], held)
			}
		}
	}
	if base.slot != 7 || bases.slots[7] != base {
		t.Errorf("the base has slot %d", base.slot)
	}
	for what, z := range map[string]*frozenMemory{
		"a slot twice":   {slots: []baseSlot{{3, "live"}, {4, "live"}}},
		"no slot":        {slots: []baseSlot{{0, "live"}}},
		"a slot of none": {slots: []baseSlot{{3, "gone"}}},
		"another base":   {name: "gone", ranges: []memmap.FileRange{pages(0, 1)}},
		"a longer base":  {name: "live", ranges: []memmap.FileRange{pages(0, 9)}},
	} {
		base.slot, bases.slots = 0, [maxSlot + 1]*BaseFile{}
		var b bytes.Buffer
		if err := z.write(&b); err != nil {
			t.Fatal(err)
		}
		if err := new(frozenMemory).read(&b, bases); err == nil {
			t.Errorf("%s: accepted", what)
		}
	}
}

func FuzzFrozen(f *testing.F) {
	for _, z := range []*frozenMemory{{}, {name: "x", ranges: []memmap.FileRange{pages(1, 2), pages(5, 9)}}, {slots: []baseSlot{{9, "x"}}}} {
		var b bytes.Buffer
		if err := z.write(&b); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes()[4:])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		base := &BaseFile{name: "x", size: 1 << 40}
		b = append([]byte{byte(len(b)), byte(len(b) >> 8), byte(len(b) >> 16), 0}, b...)
		var z frozenMemory
		if z.read(bytes.NewReader(b), &Bases{own: base, files: map[string]*BaseFile{"x": base}}) != nil {
			return
		}
		at := uint64(0)
		for i, fr := range z.ranges {
			if fr.Start < at || fr.End <= fr.Start || fr.End > base.size || fr.Start%page != 0 || fr.End%page != 0 {
				t.Fatalf("range %d: %v after %#x", i, fr, at)
			}
			at = fr.End
		}
	})
}

func TestFreeze(t *testing.T) {
	f, fr := allocated(t, 4)
	if f.BeginFreeze() != "" {
		t.Error("freezes unasked")
	}
	f.FreezeNext("z") // of a checkpoint that never began
	f.Thaw("z")
	if name := f.BeginFreeze(); name != "" {
		t.Errorf("a checkpoint freezes what another one was to freeze: %q", name)
	}
	f.FreezeNext("a")
	if name := f.BeginFreeze(); name != "a" {
		t.Errorf("%q", name)
	}
	// Two mappings of one range, as after a fork.
	half := memmap.FileRange{Start: fr.Start, End: fr.Start + 2*page}
	f.Freeze("a", []memmap.FileRange{half, fr, half})
	if f.FrozenName() != "a" || len(f.frozen.ranges) != 1 || f.frozen.ranges[0] != fr {
		t.Errorf("%q: %v", f.FrozenName(), f.frozen.ranges)
	}
	if f.HasUniqueRef(fr) {
		t.Error("a write would not copy")
	}
	f.Freeze("b", []memmap.FileRange{half})
	if !f.Thaw("a") || f.Thaw("a") {
		t.Error("thawed never, or twice")
	}
	f.Freeze("c", nil)
	if f.FrozenName() != "c" || len(f.frozen.ranges) != 1 || f.frozen.ranges[0] != half {
		t.Errorf("a checkpoint contains what another one froze: %v", f.frozen.ranges)
	}
	if f.HasUniqueRef(half) || !f.HasUniqueRef(memmap.FileRange{Start: half.End, End: fr.End}) {
		t.Error("what b froze is thawed, or what only a froze is not")
	}
	// What only others need has no content in a checkpoint that is to be complete: of b the
	// first page, and where two are held both references.
	first := memmap.FileRange{Start: fr.Start, End: fr.Start + page}
	f.Freeze("d", []memmap.FileRange{first})
	if f.BeginFreeze(); len(f.frozen.skip) != 0 {
		t.Errorf("%v is left out, which is in use", f.frozen.skip)
	}
	f.DecRef(first)
	if name := f.BeginFreeze(); name != "" || len(f.frozen.skip) != 1 || f.frozen.skip[0] != first || f.FrozenName() != "" {
		t.Errorf("%v is left out, and not %v", f.frozen.skip, first)
	}
	if skip, end := f.frozen.prefix(fr); !skip || end != first.End {
		t.Errorf("the checkpoint contains %v to %d", skip, end)
	}
	f.Thaw("b")
	f.Thaw("d")
	rest := memmap.FileRange{Start: first.End, End: fr.End}
	if !f.HasUniqueRef(rest) {
		t.Error("references are left")
	}
	f.DecRef(rest)
}

// TestDropHeld: also a kernel whose memory was copied holds nothing for others.
func TestDropHeld(t *testing.T) {
	f, fr := allocated(t, 2)
	// As after a load: the references are there, and the ranges are to be dropped.
	f.IncRef(fr, 0)
	var b bytes.Buffer
	z := frozenMemory{held: map[string][]memmap.FileRange{"a": {fr}}}
	if err := z.write(&b); err != nil {
		t.Fatal(err)
	}
	if err := f.frozen.read(&b, nil); err != nil {
		t.Fatal(err)
	}
	if f.HasUniqueRef(fr) {
		t.Error("the control: it holds nothing")
	}
	f.DropHeld()
	f.DropHeld() // drops nothing twice
	if !f.HasUniqueRef(fr) {
		t.Error("references are left")
	}
	f.DecRef(fr)
}
