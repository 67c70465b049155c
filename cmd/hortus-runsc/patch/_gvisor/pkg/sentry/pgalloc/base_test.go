package pgalloc

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"gvisor.dev/gvisor/pkg/hostarch"
	"gvisor.dev/gvisor/pkg/safemem"
	"gvisor.dev/gvisor/pkg/sentry/checkpoint"
	"gvisor.dev/gvisor/pkg/sentry/memmap"
)

const page = hostarch.PageSize

// pagesFile makes a pages file of which each page is filled with its number.
func pagesFile(t *testing.T, pages int) *os.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pages")
	var b []byte
	for i := range pages {
		b = append(b, bytes.Repeat([]byte{byte(i + 1)}, page)...)
	}
	if err := os.WriteFile(path, b, 0o400); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func baseOf(t *testing.T, name string, f *os.File) *BaseFile {
	t.Helper()
	b, err := NewBaseFile(name, int(f.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if b.addr != 0 {
			unmapBase(b.addr, b.size)
		}
	})
	return b
}

func TestBaseFileIsReadOnly(t *testing.T) {
	b := baseOf(t, "a", pagesFile(t, 3))
	fr := memmap.FileRange{Start: page, End: 3 * page}
	if _, err := b.MapInternal(fr, hostarch.ReadWrite); err == nil {
		t.Error("mapped for writing")
	}
	blocks, err := b.MapInternal(fr, hostarch.Read)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, fr.Length())
	to := safemem.BlockSeqOf(safemem.BlockFromSafeSlice(got))
	if n, err := safemem.CopySeq(to, blocks); n != fr.Length() || err != nil {
		t.Fatalf("%d bytes, %v", n, err)
	}
	if want := append(bytes.Repeat([]byte{2}, page), bytes.Repeat([]byte{3}, page)...); !bytes.Equal(got, want) {
		t.Error("another content")
	}
	if fd, err := b.DataFD(fr); err != nil || fd != b.FD() {
		t.Errorf("DataFD: %d, %v", fd, err)
	}
	for _, bad := range []memmap.FileRange{{}, {Start: 2 * page, End: 4 * page}, {Start: 4 * page, End: 3 * page}} {
		if _, err := b.MapInternal(bad, hostarch.Read); err == nil {
			t.Errorf("%v was mapped", bad)
		}
		if _, err := b.DataFD(bad); err == nil {
			t.Errorf("DataFD of %v", bad)
		}
	}
}

func TestNewBaseFileRefuses(t *testing.T) {
	good := pagesFile(t, 1)
	path := filepath.Join(t.TempDir(), "odd")
	if err := os.WriteFile(path, make([]byte, page+1), 0o600); err != nil {
		t.Fatal(err)
	}
	odd, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer odd.Close()
	for what, f := range map[string]func() error{
		"no name":      func() error { _, err := NewBaseFile("", int(good.Fd())); return err },
		"half a page":  func() error { _, err := NewBaseFile("a", int(odd.Fd())); return err },
		"no file":      func() error { _, err := NewBaseFile("a", -1); return err },
		"the same two": func() error { _, err := NewBases(baseOf(t, "a", good), baseOf(t, "a", good)); return err },
	} {
		if f() == nil {
			t.Errorf("%s: accepted", what)
		}
	}
	if _, err := NewBases(baseOf(t, "a", good), baseOf(t, "b", good)); err != nil {
		t.Errorf("the control: %v", err)
	}
	empty, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer empty.Close()
	if b := baseOf(t, "e", empty); b.Size() != 0 {
		t.Errorf("an empty file has %d bytes", b.Size())
	}
}

func TestBasesFind(t *testing.T) {
	b, err := NewBases(baseOf(t, "own", pagesFile(t, 1)))
	if err != nil {
		t.Fatal(err)
	}
	fr := func(start, end uint64) memmap.FileRange {
		return memmap.FileRange{Start: start * page, End: end * page}
	}
	b.add(fr(2, 4), 0)
	b.add(fr(4, 5), 2*page) // continues the first
	b.add(fr(8, 9), 3*page)
	if len(b.pages) != 2 {
		t.Errorf("%d ranges: %v", len(b.pages), b.pages)
	}
	for _, c := range []struct {
		in, part memmap.FileRange
		off      uint64
		ok       bool
	}{
		{fr(0, 2), fr(0, 0), 0, false},
		{fr(0, 3), fr(2, 3), 0, true},
		{fr(3, 20), fr(3, 5), 1, true},
		{fr(5, 8), fr(0, 0), 0, false},
		{fr(5, 20), fr(8, 9), 3, true},
		{fr(9, 20), fr(0, 0), 0, false},
	} {
		part, file, off, ok := b.Find(c.in)
		if ok && file != b.own || part != c.part || off != c.off*page || ok != c.ok {
			t.Errorf("%v: %v at %d, %v; want %v at %d, %v", c.in, part, off/page, ok, c.part, c.off, c.ok)
		}
	}
	var none *Bases
	none.add(fr(0, 1), 0)
	none.OnRebase(func() { t.Error("called") })
	if none.File(checkpoint.ResourceID{}) != nil || none.All() != nil {
		t.Error("a kernel without bases has some")
	}
}

func TestBasesSaved(t *testing.T) {
	f := pagesFile(t, 1)
	own, other := baseOf(t, "own", f), baseOf(t, "other", f)
	b, err := NewBases(own, other)
	if err != nil {
		t.Fatal(err)
	}
	other.MarkSaved()
	if got := b.Saved(); len(got) != 1 || got[0] != other {
		t.Errorf("%v", got)
	}
	if b.File(own.ResourceID()) != own || b.File(other.ResourceID()) != other || b.File(checkpoint.ResourceID{Path: "own"}) != nil {
		t.Error("files are not found by their IDs alone")
	}
	for what, c := range map[string]struct {
		names []string
		want  map[*BaseFile]bool
	}{
		"all": {nil, map[*BaseFile]bool{own: true, other: true}},
		"one": {[]string{"other", "gone"}, map[*BaseFile]bool{other: true}},
	} {
		b.Copy(c.names)
		if got := b.BeginSave(); !maps.Equal(got, c.want) {
			t.Errorf("%s: not %v, want %v", what, got, c.want)
		}
		if got := b.BeginSave(); len(got) != 0 {
			t.Errorf("%s: also of the checkpoint after the next: %v", what, got)
		}
	}
	if got := b.Saved(); len(got) != 0 {
		t.Errorf("after the next save has begun: %v", got)
	}
}

func TestBreakUnit(t *testing.T) {
	b := baseOf(t, "a", pagesFile(t, 1))
	var copied uint64
	breaks := 0
	// A task that writes all of 8 GiB has far fewer mappings than the host allows, 65530.
	for ; copied < 8<<30; breaks++ {
		unit := b.BreakUnit()
		if unit&(unit-1) != 0 || unit < minBreakUnit || unit > hostarch.HugePageSize {
			t.Fatalf("a unit of %d bytes", unit)
		}
		copied += unit
	}
	if breaks > 30000 {
		t.Errorf("%d breaks", breaks)
	}
}
