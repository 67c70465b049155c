package layer

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/storage/layer/mount"
	"hortus.dev/test/patience"
)

// packing opens a store that packs every tree, on a host that can.
func packing(t testing.TB, cfg Config) *Store {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can mount images")
	}
	if _, err := mount.Find(t.Context(), t.TempDir()); err != nil {
		t.Skipf("this host cannot mount images: %v", err)
	}
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	cfg.PackEntries = 1
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// plain builds a tree with a few files, without mounts.
func plain(text string) func(context.Context, string) (Tree, error) {
	return func(_ context.Context, dir string) (Tree, error) {
		root := filepath.Join(dir, "root")
		if err := os.MkdirAll(filepath.Join(root, "d"), 0o755); err != nil {
			return Tree{}, err
		}
		for i := range 20 {
			if err := os.WriteFile(filepath.Join(root, "d", fmt.Sprint(i)), []byte(strings.Repeat("x", i*1000)), 0o644); err != nil {
				return Tree{}, err
			}
		}
		return Tree{Root: root, Path: "/bin"}, os.WriteFile(filepath.Join(root, "f"), []byte(text), 0o644)
	}
}

func read(t *testing.T, tree Tree) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(tree.Root, "f"))
	if err != nil {
		t.Error(err)
	}
	return string(b)
}

// TestPacked: a packed tree is one file, is read by its path and by a mount, is shared, and
// goes with its layer.
func TestPacked(t *testing.T) {
	s := packing(t, Config{})
	tree, err := s.Put(t.Context(), digestA, plain("one"))
	if err != nil || !tree.Packed() || read(t, tree) != "one" || tree.Path != "/bin" {
		t.Fatalf("%+v, %v", tree, err)
	}
	entries, _ := os.ReadDir(filepath.Join(s.Dir(), string(digestA)))
	if len(entries) != 2 {
		t.Errorf("the layer contains %v", entries)
	}
	other, err := New(Config{Dir: s.Dir()}) // as another process would
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	again, lease, err := other.Lease(digestA)
	if err != nil || read(t, again) != "one" || again.Root == tree.Root {
		t.Fatalf("%+v, %v", again, err)
	}
	if same, err := s.Resolve(digestA); err != nil || same.Root != tree.Root {
		t.Errorf("mounted again: %+v, %v", same, err)
	}
	fd, err := again.CloneMount()
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := s.Remove(digestA); api.KindOf(err) != api.KindConflict {
		t.Errorf("removed under a lease: %v", err)
	}
	lease.Release()
	if err := s.Remove(digestA); err != nil || s.Has(digestA) {
		t.Errorf("Remove: %v", err)
	}
	// A sandbox keeps what it has.
	if err := unix.Faccessat(fd, "f", unix.R_OK, 0); err != nil {
		t.Errorf("the clone: %v", err)
	}
	if tree, err = s.Put(t.Context(), digestA, plain("two")); err != nil || read(t, tree) != "two" {
		t.Errorf("made again: %v", err)
	}
	// The other process sees the new one, not its old mount.
	if again, err = other.Resolve(digestA); err != nil || read(t, again) != "two" {
		t.Errorf("%+v, %v", again, err)
	}
}

// TestNotPacked: what cannot be one image stays as it is.
func TestNotPacked(t *testing.T) {
	s := packing(t, Config{})
	if tree, err := s.Put(t.Context(), digestA, build("x")); err != nil || tree.Packed() {
		t.Errorf("a tree with mounts of the host: %+v, %v", tree, err)
	}
	tree, err := s.Put(t.Context(), digestB, func(_ context.Context, dir string) (Tree, error) { return Tree{Root: dir}, nil })
	if err != nil || tree.Packed() {
		t.Errorf("a tree beside its record: %+v, %v", tree, err)
	}
	small, err := New(Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if tree, err := small.Put(t.Context(), digestA, plain("x")); err != nil || tree.Packed() {
		t.Errorf("a small tree: %+v, %v", tree, err)
	}
	raw, err := New(Config{Dir: t.TempDir(), NoPacking: true, PackEntries: 1})
	if err != nil {
		t.Fatal(err)
	}
	if tree, err := raw.Put(t.Context(), digestA, plain("x")); err != nil || tree.Packed() || read(t, tree) != "x" {
		t.Errorf("packing is off: %+v, %v", tree, err)
	}
	// A tree that an image cannot hold works as a directory.
	deep := func(ctx context.Context, dir string) (Tree, error) {
		tree, err := plain("deep")(ctx, dir)
		d, _ := unix.Open(tree.Root, unix.O_RDONLY, 0)
		for i := 0; err == nil && i < 520; i++ {
			if err = unix.Mkdirat(d, "d0", 0o755); err == nil {
				below, _ := unix.Openat(d, "d0", unix.O_RDONLY, 0)
				unix.Close(d)
				d = below
			}
		}
		unix.Close(d)
		return tree, err
	}
	const c = Digest("sha256-cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc")
	if tree, err := s.Put(t.Context(), c, deep); err != nil || tree.Packed() || read(t, tree) != "deep" {
		t.Errorf("a deep tree: %+v, %v", tree, err)
	}
}

// TestCorrupt: a packed tree is not used after its image changed, and is built again. The
// control: without a change the same store uses it.
func TestCorrupt(t *testing.T) {
	for _, c := range []struct {
		name   string
		damage func(t *testing.T, dir string)
		want   string // after Put
	}{
		{"control", func(*testing.T, string) {}, "first"},
		{"flipped bit in data", func(t *testing.T, dir string) { flip(t, filepath.Join(dir, imageName), -3) }, "second"},
		{"flipped bit in an inode", func(t *testing.T, dir string) { flip(t, filepath.Join(dir, imageName), 4096+8) }, "second"},
		{"truncated", func(t *testing.T, dir string) { truncate(t, filepath.Join(dir, imageName)) }, "second"},
		{"record cut short", func(t *testing.T, dir string) { truncate(t, filepath.Join(dir, treeName)) }, "second"},
		{"sum changed", func(t *testing.T, dir string) {
			p := filepath.Join(dir, treeName)
			b, err := os.ReadFile(p)
			if err == nil {
				err = os.WriteFile(p, bytes.Replace(b, []byte(sumPrefix), []byte(sumPrefix+"0"), 1), 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
		}, "second"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			if _, err := packing(t, Config{Dir: dir}).Put(t.Context(), digestA, plain("first")); err != nil {
				t.Fatal(err)
			}
			c.damage(t, filepath.Join(dir, string(digestA)))
			s := packing(t, Config{Dir: dir, VerifyWait: patience.Of(time.Minute)}) // as after a restart
			if _, _, err := s.Lease(digestA); (api.KindOf(err) == api.KindNotFound) != (c.want == "second") {
				t.Errorf("Lease: %v", err)
			}
			tree, err := s.Put(t.Context(), digestA, plain("second"))
			if err != nil || read(t, tree) != c.want {
				t.Errorf("Put: %+v, %v", tree, err)
			}
			if all, err := s.List(); err != nil || len(all) != 1 {
				t.Errorf("%v, %v", all, err)
			}
			if entries, _ := os.ReadDir(dir); len(entries) != 1 {
				t.Errorf("left: %v", entries)
			}
		})
	}
}

// TestCorruptLate: a tree whose verification takes longer than its first user waits is set
// aside when it turns out to be corrupt; who uses it keeps it.
func TestCorruptLate(t *testing.T) {
	dir := t.TempDir()
	if _, err := packing(t, Config{Dir: dir}).Put(t.Context(), digestA, plain("first")); err != nil {
		t.Fatal(err)
	}
	flip(t, filepath.Join(dir, string(digestA), imageName), -3)
	var log syncBuffer
	s := packing(t, Config{Dir: dir, VerifyWait: 1, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	tree, lease, err := s.Lease(digestA)
	for err == nil && s.Has(digestA) { // until it is noticed
		if t.Context().Err() != nil {
			t.Fatal("it was not noticed")
		}
	}
	if lease != nil {
		if b, err := os.ReadFile(filepath.Join(tree.Root, "d", "1")); err != nil || len(b) != 1000 {
			t.Errorf("the user of the corrupt tree: %v", err)
		}
		lease.Release()
	}
	if tree, err = s.Put(t.Context(), digestA, plain("second")); err != nil || read(t, tree) != "second" {
		t.Errorf("Put: %+v, %v", tree, err)
	}
	s.Close()
	if !strings.Contains(log.String(), "corrupt") {
		t.Errorf("not logged: %s", log.String())
	}
	next, err := New(Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	next.work.Wait()
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("left: %v", entries)
	}
}

func flip(t *testing.T, path string, at int64) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if at < 0 {
		at += int64(len(b))
	}
	b[at] ^= 0x10
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(b[at:at+1], at); err != nil {
		t.Fatal(err)
	}
}

func truncate(t *testing.T, path string) {
	t.Helper()
	st, err := os.Stat(path)
	if err == nil {
		err = os.Truncate(path, st.Size()/2)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// syncBuffer is a buffer for several goroutines.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
