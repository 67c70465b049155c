package archivetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"hortus.dev/api"
	"hortus.dev/internal/storage/layer/archive"
)

// Run tests blobs; open returns new ones, which are empty.
func Run(t *testing.T, open func(t *testing.T) archive.Blobs) {
	for name, test := range map[string]func(*testing.T, archive.Blobs){
		"Blobs": testBlobs, "Create": testCreate, "HalfPut": testHalfPut, "Names": testNames, "Round": testRound, "Damaged": testDamaged, "Replaced": testReplaced, "Interrupted": testInterrupted, "Refused": testRefused,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

// content returns bytes that do not compress; Size spans several parts of an upload.
func content(size int) []byte {
	p := make([]byte, size)
	r := rand.NewChaCha8([32]byte{1})
	r.Read(p)
	return p
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Get reads a blob.
func Get(t *testing.T, b archive.Blobs, name string) []byte {
	t.Helper()
	r, size, err := b.Get(t.Context(), name)
	must(t, err)
	defer r.Close()
	p, err := io.ReadAll(r)
	must(t, err)
	if int64(len(p)) != size {
		t.Errorf("%s: %d bytes, %d stated", name, len(p), size)
	}
	return p
}

// testBlobs: what is stored is read, of any size.
func testBlobs(t *testing.T, b archive.Blobs) {
	if _, _, err := b.Get(t.Context(), "none"); api.KindOf(err) != api.KindNotFound {
		t.Errorf("none: %v", err)
	}
	if has, err := b.Has(t.Context(), "none"); has || err != nil {
		t.Errorf("none: %v, %v", has, err)
	}
	const part = 5 << 20
	var want []string
	for name, size := range map[string]int{"one": 1, "part.json": part, "parts": 2 * part, "more-1.tar.zst": 2*part + 7} {
		p := content(size)
		must(t, b.Put(t.Context(), name, iotest.HalfReader(bytes.NewReader(p))))
		if got := Get(t, b, name); !bytes.Equal(got, p) {
			t.Errorf("%s: %d bytes, not the %d that were stored", name, len(got), size)
		}
		if has, err := b.Has(t.Context(), name); !has || err != nil {
			t.Errorf("%s: %v, %v", name, has, err)
		}
		want = append(want, name)
	}
	must(t, b.Put(t.Context(), "one", strings.NewReader("replaced")))
	if got := Get(t, b, "one"); string(got) != "replaced" {
		t.Errorf("replaced: %q", got)
	}
	got, err := b.List(t.Context(), "", 100)
	must(t, err)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("listed %q, not %q", got, want)
	}
	if got, err := b.List(t.Context(), "", 2); err != nil || len(got) != 2 {
		t.Errorf("two of them: %q, %v", got, err)
	}
	if got, err := b.List(t.Context(), "part", 10); err != nil || len(got) != 2 {
		t.Errorf("those that begin with part: %q, %v", got, err)
	}
	for range 2 { // the second time it is gone
		must(t, b.Remove(t.Context(), "one"))
	}
	if has, err := b.Has(t.Context(), "one"); has || err != nil {
		t.Errorf("removed: %v, %v", has, err)
	}
	if got := Get(t, b, "parts"); len(got) != 2*part {
		t.Errorf("another one: %d bytes", len(got))
	}
}

// testCreate: of those who create a blob at the same time one succeeds, and its content stays.
func testCreate(t *testing.T, b archive.Blobs) {
	const hosts = 8
	var wg sync.WaitGroup
	var won atomic.Int64
	for i := range int64(hosts) {
		wg.Go(func() {
			switch err := b.Create(t.Context(), "one", fmt.Append(nil, i+1)); api.KindOf(err) {
			case "":
				if !won.CompareAndSwap(0, i+1) {
					t.Error("two of them created it")
				}
			case api.KindExists:
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := Get(t, b, "one"); string(got) != fmt.Sprint(won.Load()) {
		t.Errorf("%q, created by %d", got, won.Load())
	}
	must(t, b.Remove(t.Context(), "one"))
	must(t, b.Create(t.Context(), "one", []byte("again")))
	if got, err := b.List(t.Context(), "", 10); err != nil || len(got) != 1 {
		t.Errorf("listed %q, %v", got, err)
	}
	if err := b.Create(t.Context(), "../x", nil); api.KindOf(err) != api.KindInvalid {
		t.Errorf("created a blob elsewhere: %v", err)
	}
}

// testHalfPut: a Put that fails changes nothing, wherever it fails.
func testHalfPut(t *testing.T, b archive.Blobs) {
	broken := errors.New("the tree cannot be read")
	must(t, b.Put(t.Context(), "old", strings.NewReader("old")))
	for _, size := range []int{0, 1, 5 << 20, 11 << 20} {
		for _, fault := range []error{broken, io.ErrUnexpectedEOF} {
			for _, name := range []string{"new", "old"} {
				r := io.MultiReader(bytes.NewReader(content(size)), iotest.ErrReader(fault))
				if err := b.Put(t.Context(), name, r); !errors.Is(err, fault) {
					t.Errorf("%s after %d bytes: %v, not %v", name, size, err, fault)
				}
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	r := io.MultiReader(bytes.NewReader(content(6<<20)), readerFunc(func([]byte) (int, error) { cancel(); return 0, io.EOF }))
	if err := b.Put(ctx, "new", r); err == nil {
		t.Error("a Put that nobody waits for succeeded")
	}
	if has, err := b.Has(t.Context(), "new"); has || err != nil {
		t.Errorf("half a blob is visible: %v, %v", has, err)
	}
	if got := Get(t, b, "old"); string(got) != "old" {
		t.Errorf("half a blob replaced another: %d bytes", len(got))
	}
	if got, err := b.List(t.Context(), "", 10); err != nil || !slices.Equal(got, []string{"old"}) {
		t.Errorf("listed %q, %v", got, err)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// testNames: what is not the name of a blob is refused.
func testNames(t *testing.T, b archive.Blobs) {
	for _, name := range []string{"", ".", "..", "../x", "a/b", ".new-x", "A", "a\x00", "a?b", "a b", strings.Repeat("a", 300)} {
		if err := b.Put(t.Context(), name, strings.NewReader("x")); api.KindOf(err) != api.KindInvalid {
			t.Errorf("stored as %q: %v", name, err)
		}
		if _, _, err := b.Get(t.Context(), name); api.KindOf(err) != api.KindInvalid {
			t.Errorf("read %q: %v", name, err)
		}
		if _, err := b.Has(t.Context(), name); api.KindOf(err) != api.KindInvalid {
			t.Errorf("looked for %q: %v", name, err)
		}
		if err := b.Remove(t.Context(), name); api.KindOf(err) != api.KindInvalid {
			t.Errorf("removed %q: %v", name, err)
		}
	}
}
