package archivetest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/storage/layer/archive"
)

// list lists all blobs, sorted.
func list(t *testing.T, b archive.Blobs) []string {
	t.Helper()
	names, err := b.List(t.Context(), "", 100)
	must(t, err)
	slices.Sort(names)
	return names
}

// damages are the ways in which an archive can be damaged.
func damages() map[string]func(t *testing.T, b archive.Blobs, r Record, whole []byte) {
	record := func(text string) func(t *testing.T, b archive.Blobs, _ Record, _ []byte) {
		return func(t *testing.T, b archive.Blobs, _ Record, _ []byte) {
			must(t, b.Put(t.Context(), Name+".json", strings.NewReader(text)))
		}
	}
	return map[string]func(t *testing.T, b archive.Blobs, r Record, whole []byte){
		"a bit": func(t *testing.T, b archive.Blobs, r Record, whole []byte) {
			whole[len(whole)/2] ^= 1
			must(t, b.Put(t.Context(), r.Blob, bytes.NewReader(whole)))
		},
		"shorter": func(t *testing.T, b archive.Blobs, r Record, whole []byte) {
			must(t, b.Put(t.Context(), r.Blob, bytes.NewReader(whole[:len(whole)-1])))
		},
		"the archive is gone": func(t *testing.T, b archive.Blobs, r Record, _ []byte) { must(t, b.Remove(t.Context(), r.Blob)) },
		"hostile": func(t *testing.T, b archive.Blobs, r Record, _ []byte) {
			Forge(t, b, r, recorded(&r, hostile(t, "../out", "")))
		},
		"another hash": func(t *testing.T, b archive.Blobs, r Record, whole []byte) {
			r.SHA256 = strings.Repeat("0", 64)
			Forge(t, b, r, whole)
		},
		"no record in the record": record("x"),
	}
}

// testReplaced: what is damaged is replaced and gone, what is whole stays.
func testReplaced(t *testing.T, b archive.Blobs) {
	a := archive.Archive{Blobs: b}
	must(t, a.Replace(t.Context(), Name, Tree(t), t.TempDir())) // there is none
	must(t, a.Restore(t.Context(), Name, t.TempDir()))
	before := list(t, b)
	must(t, a.Replace(t.Context(), Name, "/nonexistent", t.TempDir()))
	if after := list(t, b); !slices.Equal(before, after) || len(after) != 2 {
		t.Errorf("a whole one was replaced: %q, then %q", before, after)
	}
	for what, damage := range damages() {
		for _, name := range list(t, b) {
			must(t, b.Remove(t.Context(), name))
		}
		r, whole := saved(t, b)
		damage(t, b, r, whole)
		if err := a.Restore(t.Context(), Name, t.TempDir()); api.KindOf(err) != api.KindInvalid {
			t.Errorf("%s: the control: %v", what, err)
		}
		must(t, a.Save(t.Context(), Name, Tree(t))) // the control: this does not repair it
		if err := a.Restore(t.Context(), Name, t.TempDir()); api.KindOf(err) != api.KindInvalid {
			t.Errorf("%s: the control: %v", what, err)
		}
		if err := a.Replace(t.Context(), Name, Tree(t), t.TempDir()); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if err := a.Restore(t.Context(), Name, t.TempDir()); err != nil {
			t.Errorf("%s is not replaced: %v", what, err)
		}
		after := list(t, b)
		if old := slices.Contains(after, r.Blob); old != (what == "no record in the record") || len(after) != 2 && !old {
			t.Errorf("%s: the archive has %q; the damaged one was %s", what, after, r.Blob)
		}
	}
}

// faulty fails at one call, or changes what is stored at it.
type faulty struct {
	archive.Blobs
	at, n int
	flip  bool
	hit   string
	// other, unless it is nil, is called before the record is stored.
	other func()
}

var errCrash = errors.New("the daemon is killed")

func (f *faulty) call(what string) error {
	if f.n++; f.n != f.at {
		return nil
	}
	f.hit = what
	if f.flip {
		return nil
	}
	return errCrash
}

func (f *faulty) Put(ctx context.Context, name string, r io.Reader) error {
	err := f.call("put " + name)
	if f.flip && f.n == f.at {
		p, rerr := io.ReadAll(r)
		if rerr != nil {
			return rerr
		}
		p[len(p)/2] ^= 1
		r = bytes.NewReader(p)
	}
	if err != nil {
		return err
	}
	err = f.Blobs.Put(ctx, name, r)
	if f.other != nil && strings.HasSuffix(name, ".zst") {
		f.other()
	}
	return err
}

func (f *faulty) Get(ctx context.Context, name string) (io.ReadCloser, int64, error) {
	if err := f.call("get " + name); err != nil {
		return nil, 0, err
	}
	return f.Blobs.Get(ctx, name)
}

func (f *faulty) Remove(ctx context.Context, name string) error {
	if err := f.call("remove " + name); err != nil {
		return err
	}
	return f.Blobs.Remove(ctx, name)
}

// testInterrupted: a replacement that ends at any point leaves the damaged archive or a whole one,
// and the next one completes it. What is not stored as it was written does not get a record.
func testInterrupted(t *testing.T, b archive.Blobs) {
	a := archive.Archive{Blobs: b}
	restored := func() error { return a.Restore(t.Context(), Name, t.TempDir()) }
	damage := func() Record {
		r, whole := saved(t, b)
		whole[len(whole)/2] ^= 1
		must(t, b.Put(t.Context(), r.Blob, bytes.NewReader(whole)))
		return r
	}
	empty := func() {
		for _, name := range list(t, b) {
			must(t, b.Remove(t.Context(), name))
		}
	}
	whole := 0
	for at := 1; ; at++ {
		empty()
		damage()
		f := &faulty{Blobs: b, at: at}
		err := archive.Archive{Blobs: f}.Replace(t.Context(), Name, Tree(t), t.TempDir())
		if f.hit == "" {
			must(t, err)
			break
		}
		switch kind := api.KindOf(restored()); kind {
		case "":
			whole++
			if strings.HasPrefix(f.hit, "remove") && (api.KindOf(err) != api.KindInternal || !strings.Contains(err.Error(), "no record names")) {
				t.Errorf("the damaged one is left: %v", err)
			}
		case api.KindInvalid:
			if err == nil {
				t.Errorf("%s failed, and nobody was told", f.hit)
			}
		default:
			t.Errorf("after %s: %s", f.hit, kind)
		}
		must(t, a.Replace(t.Context(), Name, Tree(t), t.TempDir()))
		if err := restored(); err != nil {
			t.Errorf("after %s and another replacement: %v", f.hit, err)
		}
	}
	if whole == 0 {
		t.Error("no point is after the record")
	}

	empty()
	r := damage()
	before := list(t, b)
	for at := 1; ; at++ {
		f := &faulty{Blobs: b, at: at, flip: true}
		err := archive.Archive{Blobs: f}.Replace(t.Context(), Name, Tree(t), t.TempDir())
		if f.hit == "" {
			t.Fatal("no archive is stored")
		}
		if strings.HasPrefix(f.hit, "put ") {
			if api.KindOf(err) != api.KindUnavailable || !slices.Equal(list(t, b), before) {
				t.Errorf("an archive that was damaged while it was stored: %v, %q", err, list(t, b))
			}
			break
		}
		empty()
		r = damage()
		before = list(t, b)
	}

	// Another host is faster: its archive counts, and ours is gone.
	var theirs []string
	f := &faulty{Blobs: b}
	f.other = func() {
		must(t, a.Replace(t.Context(), Name, Tree(t), t.TempDir()))
		theirs = append(list(t, b), r.Blob)
	}
	must(t, archive.Archive{Blobs: f}.Replace(t.Context(), Name, Tree(t), t.TempDir()))
	must(t, restored())
	if after := list(t, b); len(after) != 2 || slices.Contains(after, r.Blob) || !slices.Contains(theirs, after[0]) {
		t.Errorf("%q; with the other host's %q", after, theirs)
	}
}
