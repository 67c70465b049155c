package layer

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/storage/space"
)

const (
	digestA = Digest("sha256-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")
	digestB = Digest("host-bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb")
)

func build(text string) func(context.Context, string) (Tree, error) {
	return func(_ context.Context, dir string) (Tree, error) {
		root := filepath.Join(dir, "root")
		if err := os.Mkdir(root, 0o755); err != nil {
			return Tree{}, err
		}
		if err := os.WriteFile(filepath.Join(root, "f"), []byte(text), 0o644); err != nil {
			return Tree{}, err
		}
		return Tree{Root: root, Mounts: []Mount{{Target: "/usr", Lowers: []string{filepath.Join(dir, "mask"), "/usr"}}}, Path: "/usr/bin"}, nil
	}
}

func TestPutResolveRemove(t *testing.T) {
	s, err := Open(filepath.Join(t.TempDir(), "store"))
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	if _, err := s.Resolve(digestA); api.KindOf(err) != api.KindNotFound {
		t.Fatalf("an empty store resolves: %v", err)
	}
	put, err := s.Put(ctx, digestA, build("one"))
	if err != nil {
		t.Fatal(err)
	}
	want := filepath.Join(s.Dir(), string(digestA))
	if put.Root != want+"/root" || put.Mounts[0].Lowers[0] != want+"/mask" || put.Mounts[0].Lowers[1] != "/usr" || put.Digest != digestA {
		t.Errorf("the tree was not moved along: %+v", put)
	}
	got, err := s.Resolve(digestA)
	if err != nil || got.Root != put.Root {
		t.Errorf("Resolve: %+v, %v", got, err)
	}
	if _, err := s.Put(ctx, digestA, func(context.Context, string) (Tree, error) { return Tree{}, errors.New("built again") }); err != nil {
		t.Errorf("a second Put: %v", err)
	}
	if _, err := s.Put(ctx, digestB, func(context.Context, string) (Tree, error) { return Tree{}, errors.New("no") }); err == nil || s.Has(digestB) {
		t.Errorf("a failed build: %v", err)
	}
	list, err := s.List()
	if err != nil || len(list) != 1 || list[0] != digestA {
		t.Errorf("List: %v, %v", list, err)
	}
	entries, _ := os.ReadDir(s.Dir())
	if len(entries) != 1 {
		t.Errorf("a failed build left %v", entries)
	}
	for range 2 {
		if err := s.Remove(digestA); err != nil {
			t.Error(err)
		}
	}
	if s.Has(digestA) {
		t.Error("it is there after Remove")
	}
}

func TestLease(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Lease(digestA); api.KindOf(err) != api.KindNotFound {
		t.Errorf("a lease on nothing: %v", err)
	}
	if _, err := s.Put(context.Background(), digestA, build("x")); err != nil {
		t.Fatal(err)
	}
	tree, one, err := s.Lease(digestA)
	if err != nil || tree.Digest != digestA {
		t.Fatal(err)
	}
	other, err := Open(dir) // as another process would
	if err != nil {
		t.Fatal(err)
	}
	_, two, err := other.Lease(digestA)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range []*Lease{one, two} {
		if held, err := other.Leased(digestA); !held || err != nil {
			t.Errorf("leased: %v, %v", held, err)
		}
		if err := s.Remove(digestA); api.KindOf(err) != api.KindConflict || !s.Has(digestA) {
			t.Errorf("removed under a lease: %v", err)
		}
		l.Release()
	}
	if held, err := s.Leased(digestA); held || err != nil {
		t.Errorf("leased: %v, %v", held, err)
	}
	if err := s.Remove(digestA); err != nil || s.Has(digestA) {
		t.Errorf("Remove: %v", err)
	}
	if held, err := s.Leased(digestA); held || err != nil {
		t.Errorf("what is not there is leased: %v, %v", held, err)
	}
}

// TestLeaseAgainstRemove: anyone who has a lease has the whole tree, however often
// others try to remove it and make it again.
func TestLeaseAgainstRemove(t *testing.T) {
	s, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	var wg sync.WaitGroup
	var leases, removed atomic.Int64
	for range 4 {
		wg.Go(func() {
			for leases.Load() < 400 {
				if _, err := s.Put(ctx, digestA, build("whole")); err != nil && api.KindOf(err) != api.KindNotFound {
					t.Error(err)
					return
				}
				tree, l, err := s.Lease(digestA)
				if api.KindOf(err) == api.KindNotFound {
					continue // removed since
				}
				if err != nil {
					t.Error(err)
					return
				}
				leases.Add(1)
				if b, err := os.ReadFile(filepath.Join(tree.Root, "f")); err != nil || string(b) != "whole" {
					t.Errorf("under a lease: %q, %v", b, err)
				}
				l.Release()
			}
		})
	}
	wg.Go(func() {
		for leases.Load() < 400 {
			switch err := s.Remove(digestA); api.KindOf(err) {
			case "":
				removed.Add(1)
			case api.KindConflict:
			default:
				t.Error(err)
				return
			}
		}
	})
	wg.Wait()
	if removed.Load() == 0 {
		t.Error("it was never removed")
	}
}

func TestDigests(t *testing.T) {
	s, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []Digest{"", "host-", "../x", digestA + "0", Digest(strings.ToUpper(string(digestA))), "md5-" + digestA[7:]} {
		if _, err := s.Resolve(d); api.KindOf(err) != api.KindInvalid {
			t.Errorf("%q: %v", string(d), err)
		}
	}
}

func TestSweep(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "new-1/root"), 0o755); err != nil {
		t.Fatal(err)
	}
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	s.work.Wait()
	if entries, _ := os.ReadDir(dir); len(entries) != 0 {
		t.Errorf("left: %v", entries)
	}
	// What is being written is not swept.
	_, err = s.Put(context.Background(), digestA, func(ctx context.Context, tmp string) (Tree, error) {
		other, err := Open(dir)
		if err != nil {
			t.Error(err)
		} else {
			other.work.Wait()
		}
		return build("x")(ctx, tmp)
	})
	if err != nil {
		t.Error(err)
	}
}

// TestRemoveUntil: a removal that is ended leaves the rest, and the next one removes it.
func TestRemoveUntil(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new-1")
	for _, name := range []string{"a/shut/f", "b/f"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(dir, "a/shut"), 0o500); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(t.TempDir(), filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := removeUntil(ctx, dir); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "b/f")); err != nil {
		t.Errorf("a removal that was ended: %v", err)
	}
	if err := removeUntil(t.Context(), dir); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(dir); !os.IsNotExist(err) {
		t.Errorf("it is left: %v", err)
	}
}

func TestConcurrentPuts(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			s, err := Open(dir) // as another process would
			if err != nil {
				t.Error(err)
				return
			}
			tree, err := s.Put(context.Background(), digestA, build("same"))
			if err != nil {
				t.Error(err)
				return
			}
			if b, err := os.ReadFile(filepath.Join(tree.Root, "f")); err != nil || string(b) != "same" {
				t.Errorf("%q, %v", b, err)
			}
		})
	}
	wg.Wait()
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("left: %v", entries)
	}
}

func FuzzReadTree(f *testing.F) {
	f.Add(`{"digest":"` + string(digestA) + `","root":"/x","mounts":[{"target":"/usr","lowers":["/usr","mask0"]}]}`)
	f.Add(`{"digest":"` + string(digestA) + `","root":"root"}`)
	f.Add(`{"digest":"` + string(digestA) + `","root":"../root"}`)
	f.Add(`{"digest":"host-","root":"x"}`)
	f.Add(`{`)
	f.Fuzz(func(t *testing.T, text string) {
		tree, err := readTree(strings.NewReader(text), "/layers/one")
		if err != nil {
			return
		}
		if !tree.Digest.Valid() {
			t.Errorf("accepted %+v", tree)
		}
		var said Tree
		if err := json.Unmarshal([]byte(text), &said); err != nil {
			t.Fatal(err)
		}
		is, was := []string{tree.Root}, []string{said.Root}
		for i, m := range tree.Mounts {
			is, was = append(is, m.Lowers...), append(was, said.Mounts[i].Lowers...)
		}
		for i, p := range is {
			// What is named from the layer stays in it.
			inside := p == "/layers/one" || strings.HasPrefix(p, "/layers/one/")
			if filepath.Clean(p) != p || p != was[i] && (!inside || filepath.IsAbs(was[i])) || p == was[i] && !filepath.IsAbs(p) {
				t.Errorf("%q became %q", was[i], p)
			}
		}
	})
}

// TestMoved: a store that was moved finds its trees where it is now, and reads what
// was written with whole paths.
func TestMoved(t *testing.T) {
	was, is := filepath.Join(t.TempDir(), "was"), filepath.Join(t.TempDir(), "is")
	s, err := Open(was)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put(t.Context(), digestA, build("one")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(was, is); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(is); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(is, string(digestA))
	check := func(root string) {
		t.Helper()
		got, err := s.Resolve(digestA)
		if err != nil || got.Root != root || got.Mounts[0].Lowers[0] != filepath.Dir(root)+"/mask" || got.Mounts[0].Lowers[1] != "/usr" {
			t.Errorf("%+v, %v", got, err)
		}
	}
	check(dir + "/root")
	whole := `{"digest":"` + string(digestA) + `","root":"/old/root","mounts":[{"target":"/usr","lowers":["/old/mask","/usr"]}]}`
	if err := os.WriteFile(filepath.Join(dir, "tree.json"), []byte(whole), 0o644); err != nil {
		t.Fatal(err)
	}
	check("/old/root")
}

// TestFloor: below the floor of the disk nothing is built, and a layer that is there is found.
func TestFloor(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		digest Digest
		floor  int64
		full   bool
	}{{digestA, 1, false}, {digestB, 1 << 62, true}, {digestA, 1 << 62, false}} {
		s, err := New(Config{Dir: dir, Space: space.New(space.Config{Dir: dir, FloorBytes: c.floor, FloorInodes: 1})})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if _, err := s.Put(t.Context(), c.digest, build("x")); (err != nil) != c.full || c.full && api.KindOf(err) != api.KindExhausted {
			t.Errorf("%s with a floor of %d bytes: %v", c.digest, c.floor, err)
		}
		if all, err := s.List(); err != nil || len(all) != 1 {
			t.Errorf("layers %v, %v", all, err)
		}
	}
}
