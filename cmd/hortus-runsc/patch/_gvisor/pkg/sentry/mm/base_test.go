package mm

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/context"
	"gvisor.dev/gvisor/pkg/hostarch"
	"gvisor.dev/gvisor/pkg/safemem"
	"gvisor.dev/gvisor/pkg/sentry/memmap"
	"gvisor.dev/gvisor/pkg/sentry/pgalloc"
)

const testPage = hostarch.PageSize

func testMemoryFile(t *testing.T) *pgalloc.MemoryFile {
	t.Helper()
	fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	mf, err := pgalloc.NewMemoryFile(os.NewFile(uintptr(fd), "test"), pgalloc.MemoryFileOpts{DisableMemoryAccounting: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(mf.Destroy)
	return mf
}

func testBase(t *testing.T, name string, pages ...byte) *pgalloc.BaseFile {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	var b []byte
	for _, p := range pages {
		b = append(b, bytes.Repeat([]byte{p}, testPage)...)
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	base, err := pgalloc.NewBaseFile(name, int(f.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	return base
}

// mapBase adds a pma that refers to a base, as rebase makes it.
func mapBase(mm *MemoryManager, at hostarch.Addr, base *pgalloc.BaseFile, off uint64) {
	mm.pmas.Insert(mm.pmas.FindGap(at), hostarch.AddrRange{Start: at, End: at + testPage}, pma{
		file: base, off: off, private: true, needCOW: true, translatePerms: hostarch.AnyAccess,
		effectivePerms: hostarch.Read, maxPerms: hostarch.Read,
	})
}

func (mm *MemoryManager) testContent(t *testing.T, at hostarch.Addr) byte {
	t.Helper()
	pseg := mm.pmas.FindSegment(at)
	if !pseg.Ok() {
		t.Fatalf("nothing is at %#x", at)
	}
	if err := pseg.getInternalMappingsLocked(); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, testPage)
	from := mm.internalMappingsLocked(pseg, hostarch.AddrRange{Start: at, End: at + testPage})
	if _, err := safemem.CopySeq(safemem.BlockSeqOf(safemem.BlockFromSafeSlice(got)), from); err != nil {
		t.Fatal(err)
	}
	for _, b := range got {
		if b != got[0] {
			t.Fatalf("the page at %#x is of two", at)
		}
	}
	return got[0]
}

func TestPullBases(t *testing.T) {
	m := &MemoryManager{mf: testMemoryFile(t)}
	near, far := testBase(t, "near", 1, 2), testBase(t, "far", 3, 4)
	mapBase(m, 0x10000, near, testPage) // 2
	mapBase(m, 0x20000, far, 0)         // 3
	mapBase(m, 0x30000, far, testPage)  // 4
	used := map[*pgalloc.BaseFile]uint64{}
	m.BaseUsage(used)
	if used[near] != testPage || used[far] != 2*testPage {
		t.Errorf("used: %d and %d", used[near], used[far])
	}
	if err := m.PullBases(context.Background(), map[*pgalloc.BaseFile]bool{far: true}); err != nil {
		t.Fatal(err)
	}
	for at, want := range map[hostarch.Addr]byte{0x10000: 2, 0x20000: 3, 0x30000: 4} {
		if got := m.testContent(t, at); got != want {
			t.Errorf("%#x has %d, want %d", at, got, want)
		}
	}
	clear(used)
	m.BaseUsage(used)
	if len(used) != 1 || used[near] != testPage {
		t.Errorf("after far was copied, used: %v", used)
	}
	for pseg := m.pmas.FirstSegment(); pseg.Ok(); pseg = pseg.NextSegment() {
		p := pseg.ValuePtr()
		if p.file == memmap.File(m.mf) && !m.mf.HasUniqueRef(pseg.fileRange()) {
			t.Errorf("%v is not its own", pseg.Range())
		}
		if !p.needCOW || p.effectivePerms.Write || p.maxPerms.Write {
			t.Errorf("%v can be written without a fault", pseg.Range())
		}
	}
}

// TestBaseRanges: what several processes refer to is counted once.
func TestBaseRanges(t *testing.T) {
	mf := testMemoryFile(t)
	base, other := testBase(t, "base", 1, 2, 3), testBase(t, "other", 4)
	a, b := &MemoryManager{mf: mf}, &MemoryManager{mf: mf}
	mapBase(a, 0x10000, base, 0)
	mapBase(a, 0x20000, base, testPage)
	mapBase(b, 0x10000, base, testPage)
	mapBase(b, 0x30000, other, 0)
	ranges := map[*pgalloc.BaseFile][]memmap.FileRange{}
	a.BaseRanges(ranges)
	b.BaseRanges(ranges)
	if len(ranges[base]) != 3 || len(ranges[other]) != 1 || len(ranges) != 2 {
		t.Fatalf("ranges: %v", ranges)
	}
	if n := pgalloc.UnionSize(ranges[base]); n != 2*testPage {
		t.Errorf("%d bytes of base, want %d", n, 2*testPage)
	}
	if n := base.Allocated(); n < 3*testPage {
		t.Errorf("%d bytes of base are stored, want at least %d", n, 3*testPage)
	}
}

func TestCopyOnWriteOfBases(t *testing.T) {
	m := &MemoryManager{mf: testMemoryFile(t)}
	mapBase(m, 0x10000, testBase(t, "base", 1), 0)
	pseg := m.pmas.FindSegment(0x10000)
	if !m.isPMACopyOnWriteLocked(vmaIterator{}, pseg) {
		t.Error("a page of a base would be written")
	}
}

func TestBreakRange(t *testing.T) {
	base := testBase(t, "base", 1)
	ar := hostarch.AddrRange{Start: 0x123000, End: 0x124000}
	huge := hostarch.AddrRange{Start: 0, End: hostarch.HugePageSize}
	if got := breakRange(&pma{file: testMemoryFile(t)}, ar, huge); got != huge {
		t.Errorf("of the MemoryFile: %v", got)
	}
	if got, want := breakRange(&pma{file: base}, ar, huge), (hostarch.AddrRange{Start: 0x120000, End: 0x124000}); got != want {
		t.Errorf("of a base: %v, want %v", got, want)
	}
	top := hostarch.AddrRange{Start: ^hostarch.Addr(0)&^(testPage-1) - testPage, End: ^hostarch.Addr(0) &^ (testPage - 1)}
	if got := breakRange(&pma{file: base}, top, huge); !got.IsSupersetOf(top) {
		t.Errorf("at the top: %v does not contain %v", got, top)
	}
}
