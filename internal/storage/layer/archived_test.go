package layer

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"hortus.dev/internal/storage/layer/archive"
)

// bare is plain without a PATH, which an archive does not have.
func bare(text string) func(context.Context, string) (Tree, error) {
	return func(ctx context.Context, dir string) (Tree, error) {
		t, err := plain(text)(ctx, dir)
		t.Path = ""
		return t, err
	}
}

// TestArchived: a tree that one store built is restored in another one, which does not build
// it; a damaged archive is not used.
func TestArchived(t *testing.T) {
	d := archive.Dir{Path: t.TempDir()}
	a := archive.Archive{Blobs: d}
	s := packing(t, Config{Archive: a})
	if _, err := s.Put(t.Context(), digestA, bare("one")); err != nil {
		t.Fatal(err)
	}
	// One of the host is not portable.
	if _, err := s.Put(t.Context(), digestB, bare("host")); err != nil {
		t.Fatal(err)
	}
	s.work.Wait()
	if !d.Has(string(digestA)) || d.Has(string(digestB)) {
		t.Fatal("it is not in the archive, or what is not portable is")
	}
	if held, err := s.Leased(digestA); err != nil || held {
		t.Errorf("it is held: %v", err)
	}
	none := func(context.Context, string) (Tree, error) { return Tree{}, errors.New("it was built") }
	other := packing(t, Config{Archive: a})
	tree, err := other.Put(t.Context(), digestA, none)
	if err != nil || read(t, tree) != "one" || !tree.Packed() {
		t.Fatalf("%+v, %v", tree, err)
	}
	path := filepath.Join(d.Path, string(digestA)+".tar.zst")
	b, err := os.ReadFile(path)
	if err == nil {
		b[len(b)/2] ^= 1
		err = os.WriteFile(path, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	third := packing(t, Config{Archive: a})
	tree, err = third.Put(t.Context(), digestA, bare("again"))
	if err != nil || read(t, tree) != "again" {
		t.Fatalf("beside a damaged archive: %+v, %v", tree, err)
	}
	if _, err := packing(t, Config{}).Put(t.Context(), digestA, none); err == nil {
		t.Error("without an archive it was not built")
	}
}
