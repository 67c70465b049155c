package layer

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/storage/layer/archive"
	"hortus.dev/internal/storage/layer/archive/s3"
	"hortus.dev/test/archivetest"
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
	for name, open := range map[string]func(*testing.T) archive.Blobs{
		"directory": func(t *testing.T) archive.Blobs { return archive.Dir{Path: t.TempDir()} },
		"S3": func(t *testing.T) archive.Blobs {
			l, err := s3.Parse("s3://" + archivetest.Bucket + "/x?endpoint=" + archivetest.Server(t, nil).URL)
			if err != nil {
				t.Fatal(err)
			}
			b, err := s3.Open(s3.Config{Location: l})
			if err != nil {
				t.Fatal(err)
			}
			return b
		},
	} {
		t.Run(name, func(t *testing.T) { testArchived(t, open(t)) })
	}
}

func testArchived(t *testing.T, blobs archive.Blobs) {
	a := archive.Archive{Blobs: blobs}
	var log bytes.Buffer
	cfg := Config{Archive: a, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	has := func(d Digest) bool {
		has, err := a.Has(t.Context(), string(d))
		if err != nil {
			t.Fatal(err)
		}
		return has
	}
	s := packing(t, cfg)
	if _, err := s.Put(t.Context(), digestA, bare("one")); err != nil {
		t.Fatal(err)
	}
	// One of the host is not portable.
	if _, err := s.Put(t.Context(), digestB, bare("host")); err != nil {
		t.Fatal(err)
	}
	s.work.Wait()
	if !has(digestA) {
		t.Fatal("it is not in the archive")
	}
	if err := blobs.Put(t.Context(), "other", strings.NewReader("other")); err != nil {
		t.Fatal(err)
	}
	if names, err := blobs.List(t.Context(), "", 10); err != nil || len(names) != 3 {
		t.Errorf("what is not portable is in the archive: %q, %v", names, err)
	}
	if held, err := s.Leased(digestA); err != nil || held {
		t.Errorf("it is held: %v", err)
	}
	none := func(context.Context, string) (Tree, error) { return Tree{}, errors.New("it was built") }
	// The layer is evicted, and needed again.
	if err := s.Remove(digestA); err != nil {
		t.Fatal(err)
	}
	tree, err := s.Put(t.Context(), digestA, none)
	if err != nil || read(t, tree) != "one" || !tree.Packed() {
		t.Fatalf("%+v, %v", tree, err)
	}
	if !strings.Contains(log.String(), "restored a layer from its archive") {
		t.Errorf("the log: %s", log.String())
	}
	other := packing(t, cfg)
	tree, err = other.Put(t.Context(), digestA, none)
	if err != nil || read(t, tree) != "one" || !tree.Packed() {
		t.Fatalf("%+v, %v", tree, err)
	}
	names, err := blobs.List(t.Context(), "", 10)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, ".tar.zst") {
			if err := blobs.Put(t.Context(), name, strings.NewReader("damaged")); err != nil {
				t.Fatal(err)
			}
		}
	}
	third := packing(t, cfg)
	tree, err = third.Put(t.Context(), digestA, bare("again"))
	if err != nil || read(t, tree) != "again" {
		t.Fatalf("beside a damaged archive: %+v, %v", tree, err)
	}
	third.work.Wait()
	if !strings.Contains(log.String(), "cannot restore a layer from its archive; it is built") {
		t.Errorf("the log: %s", log.String())
	}
	// It is replaced: the next host does not build it, and the damaged one is gone.
	if !strings.Contains(log.String(), "the damaged archive of a layer is replaced") {
		t.Errorf("the log: %s", log.String())
	}
	tree, err = packing(t, cfg).Put(t.Context(), digestA, none)
	if err != nil || read(t, tree) != "again" {
		t.Errorf("after the replacement: %+v, %v", tree, err)
	}
	after, err := blobs.List(t.Context(), "", 10)
	if err != nil || len(after) != len(names) {
		t.Errorf("%q are in the archive, before the damage %q; %v", after, names, err)
	}
	if left, err := filepath.Glob(filepath.Join(third.dir, aside+"*")); err != nil || len(left) > 0 {
		t.Errorf("%q are left, %v", left, err)
	}
	if _, err := packing(t, Config{}).Put(t.Context(), digestA, none); err == nil {
		t.Error("without an archive it was not built")
	}
}

// away is an archive that cannot be reached.
type away struct{ asked atomic.Int64 }

func (a *away) Save(context.Context, string, string) error {
	a.asked.Add(1)
	return api.Errorf(api.KindUnavailable, "nobody answers")
}
func (a *away) Replace(context.Context, string, string, string) error {
	a.asked.Add(1)
	return api.Errorf(api.KindUnavailable, "nobody answers")
}
func (a *away) Restore(context.Context, string, string) error {
	a.asked.Add(1)
	return api.Errorf(api.KindUnavailable, "nobody answers")
}

// TestArchiveAway: layers are built without an archive that cannot be reached, and only the first
// one waits for it.
func TestArchiveAway(t *testing.T) {
	a := &away{}
	s := packing(t, Config{Archive: a})
	for _, d := range []Digest{digestA, "sha256-" + Digest(strings.Repeat("c", 64)), "sha256-" + Digest(strings.Repeat("d", 64))} {
		if _, err := s.Put(t.Context(), d, bare("one")); err != nil {
			t.Fatal(err)
		}
	}
	s.work.Wait()
	if n := a.asked.Load(); n != 1 {
		t.Errorf("it was asked %d times", n)
	}
	s.archiveDown.Store(time.Now().Add(-time.Second).UnixNano()) // the pause is over
	if _, err := s.Put(t.Context(), "sha256-"+Digest(strings.Repeat("e", 64)), bare("one")); err != nil {
		t.Fatal(err)
	}
	s.work.Wait()
	if n := a.asked.Load(); n != 2 {
		t.Errorf("after the pause it was asked %d times", n)
	}
}

// TestFetch: a small tree, which Put does not save, is fetched by another store; one that the archive does not have is not made.
func TestFetch(t *testing.T) {
	a := archive.Archive{Blobs: archive.Dir{Path: t.TempDir()}}
	open := func(a Archive) *Store {
		s, err := New(Config{Dir: t.TempDir(), Archive: a})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		return s
	}
	one, other, none := open(a), open(a), open(nil)
	d := Digest("sha256-" + strings.Repeat("a", 64))
	finished := 0
	finish := func(root string) error {
		finished++
		return os.Chmod(filepath.Join(root, "file"), 0o640)
	}
	if err := other.Fetch(t.Context(), d, finish); api.KindOf(err) != api.KindNotFound || other.Has(d) || finished > 0 {
		t.Errorf("not there: %v", err)
	}
	if err := one.Archive(t.Context(), d); api.KindOf(err) != api.KindNotFound {
		t.Errorf("not there: %v", err)
	}
	if _, err := one.Put(t.Context(), d, func(_ context.Context, dir string) (Tree, error) {
		root := filepath.Join(dir, "root")
		return Tree{Root: root}, errors.Join(os.Mkdir(root, 0o755), os.WriteFile(filepath.Join(root, "file"), []byte("text"), 0o600))
	}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := errors.Join(one.Archive(t.Context(), d), other.Fetch(t.Context(), d, finish)); err != nil {
			t.Fatal(err)
		}
	}
	tree, err := other.Resolve(d)
	if err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(filepath.Join(tree.Root, "file"))
	if err != nil || st.Mode() != 0o640 || finished != 1 {
		t.Errorf("%v, %v, finished %d times", st, err, finished)
	}
	if k, l := api.KindOf(none.Archive(t.Context(), d)), api.KindOf(none.Fetch(t.Context(), d, finish)); k != api.KindUnsupported || l != k {
		t.Errorf("without an archive: %s, %s", k, l)
	}
}
