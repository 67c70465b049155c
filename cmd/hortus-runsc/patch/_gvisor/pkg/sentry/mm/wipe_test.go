package mm

import (
	"bytes"
	"testing"

	"gvisor.dev/gvisor/pkg/context"
	"gvisor.dev/gvisor/pkg/errors/linuxerr"
	"gvisor.dev/gvisor/pkg/hostarch"
	"gvisor.dev/gvisor/pkg/safemem"
	"gvisor.dev/gvisor/pkg/sentry/arch"
	"gvisor.dev/gvisor/pkg/sentry/memmap"
	"gvisor.dev/gvisor/pkg/sentry/pgalloc"
	"gvisor.dev/gvisor/pkg/sentry/platform"
	"gvisor.dev/gvisor/pkg/sentry/usage"
)

// unmapped is a platform whose address spaces map nothing.
type unmapped struct{ platform.Platform }

func (unmapped) NewAddressSpace() (platform.AddressSpace, error) { return unmappedSpace{}, nil }

type unmappedSpace struct{ platform.AddressSpace }

func (unmappedSpace) PreFork()                    {}
func (unmappedSpace) PostFork()                   {}
func (unmappedSpace) Unmap(hostarch.Addr, uint64) {}

func newWipeMM(t *testing.T) *MemoryManager {
	t.Helper()
	return &MemoryManager{
		p: unmapped{}, as: unmappedSpace{}, mf: testMemoryFile(t),
		layout: arch.MmapLayout{MinAddr: testPage, MaxAddr: 1 << 40},
	}
}

// mapPages maps private pages at an address, each filled with its byte.
func (mm *MemoryManager) mapPages(t *testing.T, at hostarch.Addr, pages ...byte) {
	t.Helper()
	var content []byte
	for _, p := range pages {
		content = append(content, bytes.Repeat([]byte{p}, testPage)...)
	}
	reader := safemem.FromIOReader{Reader: bytes.NewReader(content)}
	fr, err := mm.mf.Allocate(uint64(len(content)), pgalloc.AllocOpts{
		Kind: usage.Anonymous, Mode: pgalloc.AllocateAndWritePopulate, ReaderFunc: reader.ReadToBlocks,
	})
	if err != nil {
		t.Fatal(err)
	}
	ar := hostarch.AddrRange{Start: at, End: at + hostarch.Addr(len(content))}
	rw := hostarch.ReadWrite
	mm.vmas.Insert(mm.vmas.FindGap(at), ar, vma{realPerms: rw, effectivePerms: rw, maxPerms: hostarch.AnyAccess, private: true})
	mm.pmas.Insert(mm.pmas.FindGap(at), ar, pma{
		file: mm.mf, off: fr.Start, private: true, translatePerms: hostarch.AnyAccess, effectivePerms: rw, maxPerms: hostarch.AnyAccess,
	})
}

// content is what is at the addresses: 0 for a page that nothing was written to.
func (mm *MemoryManager) contents(t *testing.T, addrs ...hostarch.Addr) (got []byte) {
	t.Helper()
	for _, at := range addrs {
		b := byte(0)
		if mm.pmas.FindSegment(at).Ok() {
			b = mm.testContent(t, at)
		}
		got = append(got, b)
	}
	return got
}

func TestWipeOnFork(t *testing.T) {
	m := newWipeMM(t)
	const a = hostarch.Addr(0x10000)
	at := []hostarch.Addr{a, a + testPage, a + 2*testPage, a + 3*testPage}
	m.mapPages(t, a, 1, 2, 3, 4)
	set := func(i, n int, wipe bool) {
		t.Helper()
		if err := m.SetWipeOnFork(at[i], uint64(n)*testPage, wipe); err != nil {
			t.Fatal(err)
		}
	}
	set(1, 3, true)
	set(3, 1, false)
	for gen := range 2 { // the child of a child too
		child, err := m.Fork(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if got := child.contents(t, at...); !bytes.Equal(got, []byte{1, 0, 0, 4}) {
			t.Errorf("child %d has %v", gen, got)
		}
		if v := child.vmas.FindSegment(at[1]); !v.Ok() || !v.ValuePtr().wipeOnFork || child.vmas.FindSegment(at[3]).ValuePtr().wipeOnFork {
			t.Errorf("child %d has other settings than its parent", gen)
		}
		if gen == 0 {
			if got := m.contents(t, at...); !bytes.Equal(got, []byte{1, 2, 3, 4}) {
				t.Errorf("the parent has %v", got)
			}
			m = child
		}
	}
}

// TestWipeRestored: pages that are wiped are gone, whether they are in the MemoryFile or in a
// base, and references are dropped.
func TestWipeRestored(t *testing.T) {
	m := newWipeMM(t)
	m.mapPages(t, 0x10000, 1, 2, 3)
	base := testBase(t, "base", 7)
	mapBase(m, 0x20000, base, 0)
	m.vmas.Insert(m.vmas.FindGap(0x20000), hostarch.AddrRange{Start: 0x20000, End: 0x20000 + testPage}, vma{private: true, wipeOnFork: true})
	if err := m.SetWipeOnFork(0x11000, testPage, true); err != nil {
		t.Fatal(err)
	}
	m.addRSSLocked(hostarch.AddrRange{Start: 0, End: 4 * testPage})
	m.WipeRestored()
	if got := m.contents(t, 0x10000, 0x11000, 0x12000, 0x20000); !bytes.Equal(got, []byte{1, 0, 3, 0}) {
		t.Errorf("%v is left", got)
	}
	if !m.vmas.FindSegment(0x11000).ValuePtr().wipeOnFork {
		t.Error("the setting is lost")
	}
}

// TestWipeSaved: the setting is part of what a checkpoint has of a mapping.
func TestWipeSaved(t *testing.T) {
	for _, wipe := range []bool{true, false} {
		v, got := vma{private: true, wipeOnFork: wipe}, vma{}
		got.loadRealPerms(context.Background(), v.saveRealPerms())
		if got.wipeOnFork != wipe || !got.private || got.isStack {
			t.Errorf("%+v", got)
		}
	}
}

// TestWipeRefused: only private anonymous memory is wiped, as on Linux.
func TestWipeRefused(t *testing.T) {
	m := newWipeMM(t)
	m.vmas.Insert(m.vmas.FindGap(0x10000), hostarch.AddrRange{Start: 0x10000, End: 0x11000}, vma{private: true, mappable: &SpecialMappable{}})
	m.vmas.Insert(m.vmas.FindGap(0x20000), hostarch.AddrRange{Start: 0x20000, End: 0x21000}, vma{mappable: memmap.Mappable(&SpecialMappable{})})
	for _, at := range []hostarch.Addr{0x10000, 0x20000} {
		if err := m.SetWipeOnFork(at, testPage, true); !linuxerr.Equals(linuxerr.EINVAL, err) {
			t.Errorf("%#x: %v", at, err)
		}
		if err := m.SetWipeOnFork(at, testPage, false); err != nil {
			t.Errorf("%#x: %v", at, err)
		}
	}
	if err := m.SetWipeOnFork(0x30000, testPage, true); !linuxerr.Equals(linuxerr.ENOMEM, err) {
		t.Errorf("where nothing is mapped: %v", err)
	}
}
