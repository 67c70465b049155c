package tmpfs

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"gvisor.dev/gvisor/pkg/hostarch"
	"gvisor.dev/gvisor/pkg/safemem"
	"gvisor.dev/gvisor/pkg/sentry/memmap"
	"gvisor.dev/gvisor/pkg/sentry/pgalloc"
)

// FuzzSharedPages does with a file, its forks and their forks what the bytes say, four each: which kernel, what,
// and where.
func FuzzSharedPages(f *testing.F) {
	for seed := range uint64(60) {
		b := make([]byte, 4*150)
		r := rand.New(rand.NewPCG(seed, 1))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		all := []*testKernel{newTestKernel(t)}
		all[0].write(0, 5*testPage+100, 'p')
		all[0].addSpace(false)
		forks := 0
		for ; len(b) >= 4; b = b[4:] {
			k := all[int(b[0])%len(all)]
			off := (int(b[2])<<8 | int(b[3])) * testPages * testPage >> 16
			space := func() *testSpace {
				if len(k.spaces) == 0 {
					return nil
				}
				return k.spaces[int(b[3])%len(k.spaces)]
			}
			switch b[1] % 16 {
			case 0, 1, 2:
				k.write(off, int(b[3])*40, b[0])
			case 3:
				k.write(len(k.want), int(b[3]), b[2])
			case 4:
				k.truncate(off)
			case 5:
				k.truncate(off &^ (testPage - 1))
			case 6:
				k.allocate(off, int(b[0])*testPage/16)
			case 7, 8:
				if s := space(); s != nil {
					k.touch(s, off, false, 0)
				}
			case 9, 10:
				if s := space(); s != nil && s.writable {
					k.touch(s, off, true, b[0]|1)
				}
			case 11, 12:
				if len(k.spaces) < 4 {
					k.addSpace(b[1]%16 == 11)
				}
			case 13:
				if len(k.spaces) > 0 {
					k.removeSpace(int(b[3]) % len(k.spaces))
				}
			case 14:
				if len(all) < 5 {
					forks++
					c := k.fork(fmt.Sprint("fork", forks))
					c.addSpace(b[0]%2 == 0)
					all = append(all, c)
				}
			case 15:
				// One without children ends, and what its parent holds for it. Others may use that too:
				// then its parent has more children.
				leaf := func(k *testKernel) bool {
					return !slices.ContainsFunc(all, func(c *testKernel) bool { return c.parent == k })
				}
				if k.parent != nil && leaf(k) {
					all = slices.DeleteFunc(all, func(c *testKernel) bool { return c == k })
					for p := k.parent; p != nil && leaf(p); p = nil {
						for len(p.frozen) > 0 {
							p.thaw()
						}
					}
				}
			}
			for _, k := range all {
				k.check()
			}
		}
	})
}

// TestForksOfAFile: a fork and its fork share a file until one of them writes it.
func TestForksOfAFile(t *testing.T) {
	k := newTestKernel(t)
	k.write(0, 20*testPage, 'p')
	c := k.fork("a")
	g := c.fork("b")
	shared := func(k *testKernel) (n uint64) {
		ranges := map[*pgalloc.BaseFile][]memmap.FileRange{}
		k.rf.BasePages(k.mf, ranges)
		for _, of := range ranges {
			n += pgalloc.UnionSize(of)
		}
		return n / testPage
	}
	if shared(c) != 20 || shared(g) != 20 {
		t.Errorf("%d and %d pages are shared, not 20", shared(c), shared(g))
	}
	c.write(3*testPage+5, 1, 'c')
	k.write(0, 10, 'q')
	g.truncate(4*testPage + 1)
	g.truncate(20 * testPage)
	if shared(c) != 19 || shared(g) != 4 {
		t.Errorf("%d and %d pages are shared, not 19 and 4", shared(c), shared(g))
	}
	for _, k := range []*testKernel{k, c, g} {
		k.check()
	}
	// A checkpoint that must not refer to the parent's memory has copies.
	pull := map[*pgalloc.BaseFile]bool{}
	for _, b := range g.mf.Bases().All() {
		pull[b] = b.Name() == "a"
	}
	g.addSpace(false)
	g.touch(g.spaces[0], 2*testPage, false, 0)
	if err := g.rf.PullPages(g.ctx, g.mf, pull); err != nil {
		t.Fatal(err)
	}
	if shared(g) != 0 || len(g.spaces[0].pages) != 0 {
		t.Errorf("after all was copied, %d pages are shared, and %d mapped", shared(g), len(g.spaces[0].pages))
	}
	g.check()
}

// TestMappingsShowOneContent: who has mapped a shared page to read sees what is written later, through a
// mapping of somebody else and otherwise.
func TestMappingsShowOneContent(t *testing.T) {
	k := newTestKernel(t)
	k.write(0, 4*testPage, 'p')
	c := k.fork("a")
	for who, k := range map[string]*testKernel{"the parent": k, "the child": c} {
		k.addSpace(false)
		reader := k.spaces[0]
		for page := range 4 {
			k.touch(reader, page*testPage, false, 0)
		}
		if tr := reader.pages[0]; tr.Perms.Write {
			t.Errorf("%s maps shared pages to write: %+v", who, tr)
		}
		k.write(testPage, 10, 'w')
		if _, ok := reader.pages[testPage]; ok || len(reader.pages) != 3 {
			t.Errorf("%s: after a write to page 1 these are mapped: %v", who, reader.pages)
		}
		k.addSpace(true)
		k.touch(k.spaces[1], 2*testPage, true, 'm')
		k.touch(reader, 2*testPage, false, 0)
		k.check()
		k.removeSpace(1)
		k.touch(reader, 0, false, 0)
		k.check()
	}
}

// TestFrozenPagesAreNotWritten: what does not copy shared pages cannot write them.
func TestFrozenPagesAreNotWritten(t *testing.T) {
	k := newTestKernel(t)
	k.write(0, 2*testPage, 'p')
	c := k.fork("a")
	for who, k := range map[string]*testKernel{"the parent": k, "the child": c} {
		rw := getRegularFileReadWriter(k.rf, 0, 0)
		if _, err := rw.WriteFromBlocks(safemem.BlockSeqOf(safemem.BlockFromSafeSlice([]byte("x")))); err == nil {
			t.Errorf("%s writes a shared page", who)
		}
		if ts, err := k.rf.Translate(k.ctx, memmap.MappableRange{End: testPage}, memmap.MappableRange{End: 2 * testPage}, hostarch.Write); err == nil {
			t.Errorf("%s maps a shared page to write, without such a mapping: %v", who, ts)
		}
		k.check()
	}
	k.thaw()
	rw := getRegularFileReadWriter(k.rf, 0, 0)
	if _, err := rw.WriteFromBlocks(safemem.BlockSeqOf(safemem.BlockFromSafeSlice([]byte("x")))); err != nil {
		t.Errorf("the control: %v", err)
	}
}

// TestPinnedPagesAreNotFrozen: a page that somebody else refers to may still be written.
func TestPinnedPagesAreNotFrozen(t *testing.T) {
	k := newTestKernel(t)
	k.write(0, 3*testPage, 'p')
	pages := k.rf.FreezePages(k.mf, nil)
	if got := pgalloc.UnionSize(k.mf.Unmapped(pages)); got != 3*testPage {
		t.Fatalf("the control: %d bytes are frozen", got)
	}
	pinned := memmap.FileRange{Start: pages[0].Start + testPage, End: pages[0].Start + 2*testPage}
	k.mf.IncRef(pinned, 0)
	got := k.mf.Unmapped(pages)
	if pgalloc.UnionSize(slices.Clone(got)) != 2*testPage || slices.ContainsFunc(got, func(fr memmap.FileRange) bool { return fr.Overlaps(pinned) }) {
		t.Errorf("of %v, of which %v is pinned, %v is frozen", pages, pinned, got)
	}
	k.mf.DecRef(pinned)
}

// TestEndOfAFile: a file that is gone has no pages, and is not registered.
func TestEndOfAFile(t *testing.T) {
	k := newTestKernel(t)
	k.write(0, 3*testPage, 'p')
	c := k.fork("a")
	for who, k := range map[string]*testKernel{"the parent": k, "the child": c} {
		if n := len(k.mf.PageUsers()); n != 1 {
			t.Errorf("%s: %d files are registered", who, n)
		}
		k.fd.vfsfd.DecRef(k.ctx)
		if n := len(k.mf.PageUsers()); n != 0 {
			t.Errorf("%s: %d files are registered after the end", who, n)
		}
		if n := k.fs.pagesUsed.Load(); n != 0 {
			t.Errorf("%s: %d pages are in use", who, n)
		}
	}
	z := k.frozen[0]
	if !bytes.Equal(k.raw(z.ranges), z.content) {
		t.Error("the end of the file changed what is frozen")
	}
}
