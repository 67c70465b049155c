package tmpfs

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/context"
	"gvisor.dev/gvisor/pkg/hostarch"
	"gvisor.dev/gvisor/pkg/safemem"
	"gvisor.dev/gvisor/pkg/sentry/kernel/auth"
	"gvisor.dev/gvisor/pkg/sentry/ktime"
	"gvisor.dev/gvisor/pkg/sentry/limits"
	"gvisor.dev/gvisor/pkg/sentry/memmap"
	"gvisor.dev/gvisor/pkg/sentry/pgalloc"
	"gvisor.dev/gvisor/pkg/sentry/vfs"
	"gvisor.dev/gvisor/pkg/usermem"
)

const (
	testPage  = hostarch.PageSize
	testPages = 40 // that a file has at most
)

// testKernel is what one sandbox has: a MemoryFile with one file in it, the content that it must have, and
// mappings of it.
type testKernel struct {
	t      testing.TB
	ctx    context.Context
	mf     *pgalloc.MemoryFile
	fs     *filesystem
	fd     *regularFileFD
	rf     *regularFile
	want   []byte
	spaces []*testSpace
	parent *testKernel
	frozen []testFrozen
}

// testFrozen is what a kernel froze for a child.
type testFrozen struct {
	name    string
	ranges  []memmap.FileRange
	content []byte
}

// testSpace is an address space with one mapping, of the whole file. Addresses are offsets in the file.
type testSpace struct {
	writable bool
	pages    map[uint64]memmap.Translation // of one page each
}

var wholeFile = hostarch.AddrRange{End: testPages * testPage}

// Invalidate implements memmap.MappingSpace.Invalidate.
func (s *testSpace) Invalidate(ar hostarch.AddrRange, _ memmap.InvalidateOpts) {
	for at := range s.pages {
		if at >= uint64(ar.Start) && at < uint64(ar.End) {
			s.drop(at)
		}
	}
}

func (s *testSpace) drop(at uint64) {
	if tr, ok := s.pages[at]; ok {
		tr.File.DecRef(tr.FileRange())
		delete(s.pages, at)
	}
}

func testContext(mf *pgalloc.MemoryFile, creds *auth.Credentials) context.Context {
	ctx := context.WithValue(context.Background(), pgalloc.CtxMemoryFile, mf)
	ctx = context.WithValue(ctx, auth.CtxCredentials, creds)
	ctx = context.WithValue(ctx, limits.CtxLimits, limits.NewLimitSet())
	return context.WithValue(ctx, ktime.CtxRealtimeClock, ktime.Clock(stopped{}))
}

// stopped is a clock.
type stopped struct{}

func (stopped) Now() ktime.Time                     { return ktime.ZeroTime }
func (stopped) NewTimer(ktime.Listener) ktime.Timer { panic("no timers") }

func newTestKernel(t testing.TB) *testKernel {
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
	creds := auth.NewRootCredentials(auth.NewRootUserNamespace())
	k := &testKernel{t: t, mf: mf, ctx: testContext(mf, creds)}
	v := new(vfs.VirtualFilesystem)
	if err := v.Init(k.ctx); err != nil {
		t.Fatal(err)
	}
	fs, root, err := FilesystemType{}.GetFilesystem(k.ctx, v, creds, "", vfs.GetFilesystemOptions{})
	if err != nil {
		t.Fatal(err)
	}
	f, err := NewMemfd(k.ctx, creds, v.NewDisconnectedMount(fs, root, &vfs.MountOptions{}), true, "x")
	if err != nil {
		t.Fatal(err)
	}
	k.fs = fs.Impl().(*filesystem)
	k.fd = f.Impl().(*regularFileFD)
	k.rf = k.fd.inode().impl.(*regularFile)
	return k
}

// testBase opens a file again, to read.
func testBase(t testing.TB, name string, fd int) *pgalloc.BaseFile {
	t.Helper()
	again, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	b, err := pgalloc.NewBaseFile(name, again)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// fork freezes the file, as a checkpoint for a fork does, and returns a kernel that was restored from it.
func (k *testKernel) fork(name string) *testKernel {
	k.t.Helper()
	used := map[*pgalloc.BaseFile][]memmap.FileRange{}
	k.rf.BasePages(k.mf, used)
	k.mf.SaveSlots(used)
	k.mf.FreezeNext(name)
	k.mf.BeginFreeze()
	pages := k.rf.FreezePages(k.mf, nil)
	z := testFrozen{name: name, ranges: k.mf.Unmapped(pages)}
	if n := pgalloc.UnionSize(slices.Clone(pages)); pgalloc.UnionSize(slices.Clone(z.ranges)) != n {
		k.t.Fatalf("of %v only %v is frozen", pages, z.ranges)
	}
	z.content = k.raw(z.ranges)
	k.mf.Freeze(name, z.ranges)
	k.frozen = append(k.frozen, z)
	var saved bytes.Buffer
	if err := k.mf.SaveTo(k.ctx, &saved, &pgalloc.SaveOpts{}); err != nil {
		k.t.Fatal(err)
	}
	c := newTestKernel(k.t)
	c.parent, c.want = k, slices.Clone(k.want)
	empty, err := unix.MemfdCreate("empty", unix.MFD_CLOEXEC)
	if err != nil {
		k.t.Fatal(err)
	}
	defer unix.Close(empty)
	others := []*pgalloc.BaseFile{testBase(k.t, name, k.mf.FD())}
	for b := range used {
		others = append(others, testBase(k.t, b.Name(), b.FD()))
	}
	bases, err := pgalloc.NewBases(testBase(k.t, "own of "+name, empty), others...)
	if err != nil {
		k.t.Fatal(err)
	}
	c.mf.SetBases(bases)
	if err := c.mf.LoadFrom(k.ctx, &saved, &pgalloc.LoadOpts{}); err != nil {
		k.t.Fatal(err)
	}
	data := k.rf.data.ExportSlice()
	if err := c.rf.data.ImportSlice(data); err != nil {
		k.t.Fatal(err)
	}
	for _, seg := range data {
		c.fs.accountPages((seg.End - seg.Start) / testPage)
	}
	c.rf.size.Store(k.rf.size.Load())
	bases.Rebase(c.mf)
	for seg := c.rf.data.FirstSegment(); seg.Ok(); seg = seg.NextSegment() {
		if b, _ := c.mf.BaseAt(seg.Value()); b == nil {
			k.t.Fatalf("%v of the child is not in a base", seg.Range())
		}
	}
	return c
}

// raw is the content of ranges of the MemoryFile.
func (k *testKernel) raw(ranges []memmap.FileRange) (out []byte) {
	for _, fr := range ranges {
		b := make([]byte, fr.Length())
		if _, err := unix.Pread(k.mf.FD(), b, int64(fr.Start)); err != nil {
			k.t.Fatal(err)
		}
		out = append(out, b...)
	}
	return out
}

// thaw ends what was frozen first.
func (k *testKernel) thaw() {
	if len(k.frozen) > 0 {
		k.mf.Thaw(k.frozen[0].name)
		k.frozen = k.frozen[1:]
	}
}

func (k *testKernel) write(off, n int, b byte) {
	k.t.Helper()
	if off+n > testPages*testPage {
		n = testPages*testPage - off
	}
	if n == 0 {
		return
	}
	data := bytes.Repeat([]byte{b}, n)
	got, err := k.fd.PWrite(k.ctx, usermem.BytesIOSequence(data), int64(off), vfs.WriteOptions{})
	if got != int64(n) || err != nil {
		k.t.Fatalf("write of %d at %d: %d, %v", n, off, got, err)
	}
	if len(k.want) < off+n {
		k.want = append(k.want, make([]byte, off+n-len(k.want))...)
	}
	copy(k.want[off:], data)
}

func (k *testKernel) truncate(size int) {
	k.t.Helper()
	if err := k.rf.truncate(uint64(size)); err != nil {
		k.t.Fatal(err)
	}
	if size <= len(k.want) {
		k.want = slices.Clone(k.want[:size])
	} else {
		k.want = append(k.want, make([]byte, size-len(k.want))...)
	}
}

func (k *testKernel) allocate(off, n int) {
	k.t.Helper()
	if n = min(n, testPages*testPage-off); n <= 0 {
		return
	}
	if err := k.fd.Allocate(k.ctx, 0, uint64(off), uint64(n)); err != nil {
		k.t.Fatal(err)
	}
	if off+n > len(k.want) {
		k.want = append(k.want, make([]byte, off+n-len(k.want))...)
	}
}

func (k *testKernel) addSpace(writable bool) {
	k.t.Helper()
	s := &testSpace{writable: writable, pages: map[uint64]memmap.Translation{}}
	if err := k.rf.AddMapping(k.ctx, s, wholeFile, 0, writable); err != nil {
		k.t.Fatal(err)
	}
	k.spaces = append(k.spaces, s)
}

func (k *testKernel) removeSpace(i int) {
	s := k.spaces[i]
	k.spaces = slices.Delete(k.spaces, i, i+1)
	s.Invalidate(wholeFile, memmap.InvalidateOpts{})
	k.rf.RemoveMapping(k.ctx, s, wholeFile, 0, s.writable)
}

// touch reads a byte through a mapping, or writes it, as a fault of a program.
func (k *testKernel) touch(s *testSpace, off int, write bool, b byte) {
	k.t.Helper()
	at := hostarch.Read
	if write {
		at = hostarch.Write
	}
	page := uint64(off) &^ (testPage - 1)
	if tr, ok := s.pages[page]; !ok || write && !tr.Perms.Write {
		s.drop(page)
		required := memmap.MappableRange{Start: page, End: page + testPage}
		optional := memmap.MappableRange{End: testPages * testPage}
		ts, err := k.rf.Translate(k.ctx, required, optional, at)
		if cerr := memmap.CheckTranslateResult(required, optional, at, ts, err); cerr != nil {
			k.t.Fatal(cerr)
		}
		if end := offsetPageEnd(int64(len(k.want))); page >= end {
			if err == nil {
				k.t.Fatalf("a page beyond the end, %#x, is translated", page)
			}
			return
		}
		if err != nil {
			k.t.Fatal(err)
		}
		for _, tr := range ts {
			for at := tr.Source.Start; at < tr.Source.End; at += testPage {
				if _, ok := s.pages[at]; ok {
					continue
				}
				one := memmap.Translation{Source: memmap.MappableRange{Start: at, End: at + testPage}, File: tr.File, Offset: tr.Offset + at - tr.Source.Start, Perms: tr.Perms}
				one.File.IncRef(one.FileRange(), 0)
				s.pages[at] = one
			}
		}
	}
	if !write || off >= len(k.want) {
		k.same(s, page)
		return
	}
	tr := s.pages[page]
	ims, err := tr.File.MapInternal(tr.FileRange(), hostarch.ReadWrite)
	if err != nil {
		k.t.Fatal(err)
	}
	if _, err := safemem.CopySeq(ims.DropFirst64(uint64(off)-page), safemem.BlockSeqOf(safemem.BlockFromSafeSlice([]byte{b}))); err != nil {
		k.t.Fatal(err)
	}
	k.want[off] = b
}

// same wants a mapping to show the page as it is.
func (k *testKernel) same(s *testSpace, page uint64) {
	k.t.Helper()
	tr := s.pages[page]
	ims, err := tr.File.MapInternal(tr.FileRange(), hostarch.Read)
	if err != nil {
		k.t.Fatal(err)
	}
	got := make([]byte, testPage)
	if _, err := safemem.CopySeq(safemem.BlockSeqOf(safemem.BlockFromSafeSlice(got)), ims); err != nil {
		k.t.Fatal(err)
	}
	if want := k.want[page:min(int(page)+testPage, len(k.want))]; !bytes.Equal(got[:len(want)], want) {
		k.t.Fatalf("a mapping shows another content of page %d", page/testPage)
	}
}

// check wants the file to have what it must have, through every mapping too, and what is frozen to have
// what it had.
func (k *testKernel) check() {
	k.t.Helper()
	got := make([]byte, testPages*testPage+1)
	n, err := k.fd.PRead(k.ctx, usermem.BytesIOSequence(got), 0, vfs.ReadOptions{})
	if err != nil && (err != io.EOF || len(k.want) > 0) {
		k.t.Fatal(err)
	}
	if !bytes.Equal(got[:n], k.want) {
		k.t.Fatal("the file has another content")
	}
	for _, s := range k.spaces {
		for page := range s.pages {
			k.same(s, page)
		}
	}
	for _, z := range k.frozen {
		if !bytes.Equal(k.raw(z.ranges), z.content) {
			k.t.Fatalf("what was frozen as %s has changed", z.name)
		}
	}
}
