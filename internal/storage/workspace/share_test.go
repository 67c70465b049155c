package workspace

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/storage/layer"
)

// fillFiles makes n files, a thousand in a directory.
func fillFiles(t testing.TB, dir string, n int) {
	t.Helper()
	for i := range n {
		sub := filepath.Join(dir, fmt.Sprint("d", i/1000))
		if i%1000 == 0 {
			if err := os.MkdirAll(sub, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(sub, fmt.Sprint(i)), fmt.Append(nil, "content ", i), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// changed returns what Changes lists.
func (f *fixture) changed(t *testing.T, id api.WorkspaceID) map[string]string {
	t.Helper()
	c, err := f.Changes(t.Context(), id, Limits{})
	must(t, err)
	defer c.Close()
	if !c.Complete || len(c.Refused) > 0 {
		t.Errorf("refused: %v", c.Refused)
	}
	out := map[string]string{}
	for _, ch := range c.List {
		if ch.Delete {
			out[ch.Path] = "deleted"
			continue
		}
		r, err := ch.Open()
		must(t, err)
		b, err := io.ReadAll(r)
		must(t, err)
		r.Close()
		out[ch.Path] = fmt.Sprintf("%s %s", ch.Mode, b)
	}
	return out
}

func inode(t *testing.T, path string) uint64 {
	t.Helper()
	var st unix.Stat_t
	must(t, unix.Lstat(path, &st))
	return st.Ino
}

func (f *fixture) upper(id api.WorkspaceID) string { return filepath.Join(f.path(id), Upper) }

// TestForksShare: the first fork of much makes a layer of it without a copy, the next ones, and
// those of a child, use that layer and take what was written since.
func TestForksShare(t *testing.T) {
	const files = 2_000
	f := newFixture(t, func(root string) { put(t, root, map[string]string{"base": "old", "gone": "old"}) })
	id, upper := f.create(t)
	fillFiles(t, upper, files)
	put(t, upper, map[string]string{"base": "new"})
	whiteOut(t, filepath.Join(upper, "gone"))
	must(t, os.Chmod(upper, 0o711))
	number := inode(t, filepath.Join(upper, "d1/1777"))
	want, changed := f.shows(t, id), f.changed(t, id)
	used, err := f.Usage(t.Context(), id)
	must(t, err)

	fork := func(of api.WorkspaceID) (api.WorkspaceID, record) {
		t.Helper()
		w, err := f.Fork(t.Context(), of, New{})
		must(t, err)
		l, err := f.lease(w.ID)
		must(t, err)
		defer unlock(l.dir)
		return w.ID, l.rec
	}
	own := func(id api.WorkspaceID) (n int) {
		t.Helper()
		must(t, filepath.WalkDir(f.upper(id), func(string, fs.DirEntry, error) error { n++; return nil }))
		return n - 1
	}
	child, rec := fork(id)
	if len(rec.Layers) != 2 || rec.Shared != 1 || own(child) != 0 || own(id) != 0 {
		t.Errorf("after a fork: %d layers, %d shared; uppers of %d and %d files", len(rec.Layers), rec.Shared, own(child), own(id))
	}
	tree, err := f.layers.Resolve(layer.Digest(rec.Layers[1]))
	must(t, err)
	if tree.Packed() || inode(t, filepath.Join(tree.Root, "d1/1777")) != number {
		t.Error("the content was copied")
	}
	if st, err := os.Stat(f.upper(child)); err != nil || st.Mode().Perm() != 0o711 {
		t.Errorf("the top directory: %v, %v", st.Mode(), err)
	}
	if row := f.rows.all[id]; len(row.Layers) != 2 || row.State != api.WorkspaceIdle {
		t.Errorf("row of the parent: %+v", row)
	}
	// A little more is copied, by the forks of the child too.
	for i := range 10 {
		put(t, f.upper(child), map[string]string{fmt.Sprintf("d0/%d", i): "changed"})
	}
	grandchild, rec := fork(child)
	again, _ := fork(child)
	if len(rec.Layers) != 2 || own(grandchild) != 11 || own(again) != 11 || own(child) != 11 {
		t.Errorf("a fork of 10 changes: %d layers, uppers of %d, %d, %d", len(rec.Layers), own(child), own(grandchild), own(again))
	}
	// What forks moved is still what was written.
	equal(t, "parent", f.shows(t, id), want)
	equal(t, "changes of the parent", f.changed(t, id), changed)
	for i := range 10 {
		want[fmt.Sprintf("d0/%d", i)] = "regular changed"
		changed[fmt.Sprintf("d0/%d", i)] = "regular changed"
	}
	equal(t, "grandchild", f.shows(t, grandchild), want)
	equal(t, "changes of the grandchild", f.changed(t, grandchild), changed)
	if got, err := f.Usage(t.Context(), id); err != nil || got.Files < used.Files-2 || got.Files > used.Files+2 || got.Bytes < used.Bytes/2 {
		t.Errorf("it takes %+v, %v; before %+v", got, err, used)
	}
	l, err := f.Lease(t.Context(), child)
	must(t, err)
	got, err := l.Measure(t.Context(), Usage{Files: files})
	must(t, err)
	if l.Release(); got.Over(Usage{Files: files}) == "" {
		t.Errorf("a measurement has %d files", got.Files)
	}
	// The layer stays when the parent goes, as others name it.
	must(t, f.Remove(t.Context(), id, "test"))
	must(t, f.Named(func(named []layer.Digest) error {
		if !slices.Contains(named, tree.Digest) {
			t.Error("nobody names the layer")
		}
		return nil
	}))
	equal(t, "grandchild of a removed parent", f.shows(t, grandchild), want)
	// A seal makes one content-addressed layer of all; then nothing is written.
	sealed, err := f.Seal(t.Context(), grandchild)
	must(t, err)
	other, err := f.Seal(t.Context(), again)
	must(t, err)
	if sealed.Layer == "" || sealed.Layer != other.Layer || len(f.rows.all[again].Layers) != 2 {
		t.Errorf("sealed: %s and %s, over %d", sealed.Layer, other.Layer, len(f.rows.all[again].Layers))
	}
	equal(t, "sealed", f.shows(t, grandchild), want)
	equal(t, "changes after a seal", f.changed(t, grandchild), nil)
}

// TestForksAreBounded: many forks of much leave few layers, and the same files.
func TestForksAreBounded(t *testing.T) {
	f := newFixture(t, func(root string) { put(t, root, map[string]string{"a/x": "old", "b/x": "old"}) })
	id, upper := f.create(t)
	most := 0
	for i := range 3 * maxShared {
		fillFiles(t, filepath.Join(upper, fmt.Sprint("r", i)), 300)
		put(t, upper, map[string]string{"again": fmt.Sprint(i), fmt.Sprintf("a/%d", i): "mine"})
		if i == 2 { // a directory of the layer is made anew
			must(t, unix.Setxattr(filepath.Join(upper, "a"), prefix+"opaque", []byte("y"), 0))
		}
		w, err := f.Fork(t.Context(), id, New{})
		must(t, err)
		most = max(most, len(w.Layers))
		if i%2 == 0 { // go on with the child
			id, upper = w.ID, f.upper(w.ID)
		}
	}
	if most != 1+maxShared {
		t.Errorf("up to %d layers", most)
	}
	got := f.shows(t, id)
	if got["again"] != fmt.Sprint("regular ", 3*maxShared-1) || got["r0/d0/17"] != "regular content 17" || got["a/x"] != "" || got["a/1"] != "" || got["a/2"] == "" || got["b/x"] != "regular old" {
		t.Errorf("again %q, r0 %q, a/x %q, a/1 %q, a/2 %q", got["again"], got["r0/d0/17"], got["a/x"], got["a/1"], got["a/2"])
	}
}

// TestForkRefuses: what a copy refuses is refused for a layer too, and the workspace stays as it was.
func TestForkRefuses(t *testing.T) {
	for name, spoil := range map[string]func(dir string) error{
		"redirect": func(dir string) error {
			return unix.Setxattr(filepath.Join(dir, "d0"), prefix+"redirect", []byte("/etc"), 0)
		},
		"metacopy": func(dir string) error {
			return unix.Setxattr(filepath.Join(dir, "d0/1"), prefix+"metacopy", nil, 0)
		},
		"device": func(dir string) error {
			return unix.Mknod(filepath.Join(dir, "d0/sda"), unix.S_IFBLK|0o600, int(unix.Mkdev(8, 0)))
		},
		"control": func(dir string) error {
			return unix.Setxattr(filepath.Join(dir, "d0"), prefix+"opaque", []byte("y"), 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nil)
			id, upper := f.create(t)
			fillFiles(t, upper, 300)
			if err := spoil(upper); err == unix.EPERM {
				t.Skipf("it cannot be made here: %v", err)
			} else {
				must(t, err)
			}
			number := inode(t, upper)
			_, err := f.Fork(t.Context(), id, New{})
			if name == "control" {
				must(t, err)
				return
			}
			if err == nil || inode(t, upper) != number {
				t.Errorf("fork: %v", err)
			}
			if list, _ := f.layers.List(); len(list) != 1 {
				t.Errorf("layers: %v", list)
			}
		})
	}
}

// TestHiddenBelow: a directory in one that was made anew hides what the layers have there.
func TestHiddenBelow(t *testing.T) {
	f := newFixture(t, func(root string) { put(t, root, map[string]string{"d/s/x": "old", "d/s/y": "old"}) })
	id, upper := f.create(t)
	put(t, upper, map[string]string{"d/s/y": "new"})
	must(t, unix.Setxattr(filepath.Join(upper, "d"), prefix+"opaque", []byte("y"), 0))
	equal(t, "changes", f.changed(t, id), map[string]string{"d/s/x": "deleted", "d/s/y": "regular new"})
}

// TestForksInTheKernel compares with what the kernel's overlay shows, after random changes made
// through it, forks and seals: files, changes, and that a change of one is seen in no other.
func TestForksInTheKernel(t *testing.T) {
	f := newFixture(t, func(root string) {
		for i := range 40 {
			put(t, root, map[string]string{fmt.Sprintf("%d/%d/%d", i%3, i%5, i): "base"})
		}
	})
	rnd := rand.New(rand.NewPCG(1, 2))
	id, _ := f.create(t)
	f.inOverlay(t, id, func(dir string) { fillFiles(t, filepath.Join(dir, "2/much"), 300) })
	all := map[api.WorkspaceID]map[string]string{id: nil}
	for round := range 10 {
		ids := make([]api.WorkspaceID, 0, len(all))
		for id := range all {
			ids = append(ids, id)
		}
		slices.Sort(ids)
		id := ids[rnd.IntN(len(ids))]
		var want map[string]string
		f.inOverlay(t, id, func(dir string) {
			for range 30 {
				change(t, rnd, dir)
			}
			if rnd.IntN(2) == 0 {
				fillFiles(t, filepath.Join(dir, fmt.Sprint("much", rnd.IntN(3))), 300)
			}
			want = listing(t, dir)
		})
		changed := f.changed(t, id)
		equal(t, fmt.Sprint("walk in round ", round), notDirs(f.shows(t, id)), notDirs(want))
		w, err := f.Fork(t.Context(), id, New{})
		must(t, err)
		all[id], all[w.ID] = want, want
		for _, id := range []api.WorkspaceID{id, w.ID} {
			equal(t, fmt.Sprint("changes in round ", round), f.changed(t, id), changed)
		}
		if rnd.IntN(8) == 0 {
			_, err := f.Seal(t.Context(), w.ID)
			must(t, err)
			equal(t, "changes after a seal", f.changed(t, w.ID), nil)
		}
		for id, want := range all {
			if want == nil {
				continue
			}
			f.inOverlay(t, id, func(dir string) {
				equal(t, fmt.Sprint("the kernel's files of ", id, " after round ", round), listing(t, dir), want)
			})
		}
		if t.Failed() {
			return
		}
	}
}

// notDirs are the entries that are no directories.
func notDirs(all map[string]string) map[string]string {
	out := map[string]string{}
	for p, v := range all {
		if v != "directory" {
			out[p] = v
		}
	}
	return out
}

// inOverlay mounts a workspace as a sandbox has it.
func (f *fixture) inOverlay(t *testing.T, id api.WorkspaceID, do func(dir string)) {
	t.Helper()
	l, err := f.Lease(t.Context(), id)
	must(t, err)
	defer l.Release()
	v, err := openView(f.layers, l.Layers())
	must(t, err)
	defer v.close()
	var lowers []string
	for _, fd := range v.roots {
		lowers = append(lowers, fmt.Sprintf("/proc/self/fd/%d", fd))
	}
	dir := t.TempDir()
	options := fmt.Sprintf("userxattr,xino=auto,lowerdir=%s,upperdir=%s,workdir=%s", strings.Join(lowers, ":"), filepath.Join(l.Path(), Upper), filepath.Join(l.Path(), Work))
	if err := unix.Mount("overlay", dir, "overlay", 0, options); err != nil {
		t.Skipf("no overlay can be mounted here: %v", err)
	}
	defer func() { must(t, unix.Unmount(dir, 0)) }()
	do(dir)
}

// listing is what a directory has, as shows has it.
func listing(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	must(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		switch {
		case d.IsDir():
			out[rel] = "directory"
		case d.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(p)
			out[rel] = "symlink " + target
			return err
		default:
			b, err := os.ReadFile(p)
			out[rel] = "regular " + string(b)
			return err
		}
		return nil
	}))
	return out
}

// change makes one random change.
func change(t *testing.T, rnd *rand.Rand, dir string) {
	t.Helper()
	at := dir
	for range rnd.IntN(3) {
		at = filepath.Join(at, fmt.Sprint(rnd.IntN(5)))
	}
	p := filepath.Join(at, fmt.Sprint(rnd.IntN(40)))
	if err := os.MkdirAll(at, 0o755); err != nil {
		return // something else is there
	}
	switch rnd.IntN(6) {
	case 0:
		must(t, os.RemoveAll(at+"/"+fmt.Sprint(rnd.IntN(5))))
	case 1:
		must(t, os.RemoveAll(p))
	case 2:
		_ = os.Remove(p)
		_ = os.Symlink("to", p)
	case 3:
		_ = os.Rename(p, filepath.Join(dir, fmt.Sprint(rnd.IntN(40))))
	case 4:
		must(t, os.RemoveAll(p))
		must(t, os.MkdirAll(filepath.Join(p, "1"), 0o755))
		must(t, os.WriteFile(filepath.Join(p, "1/f"), fmt.Append(nil, rnd.Uint32()), 0o644))
	default:
		_ = os.WriteFile(p, fmt.Append(nil, rnd.Uint32()), 0o644)
	}
}

// BenchmarkFork forks a workspace with 20,000 files: the first time, again, and a child of it in
// which 10 files were changed; and what a copy costs.
func BenchmarkFork(b *testing.B) {
	const n = 20_000
	dir := b.TempDir()
	layers, err := layer.Open(filepath.Join(dir, "layers"))
	if err != nil {
		b.Fatal(err)
	}
	base := layer.Digest("sha256-" + strings.Repeat("a", 64))
	if _, err := layers.Put(b.Context(), base, func(_ context.Context, dir string) (layer.Tree, error) {
		return layer.Tree{Root: filepath.Join(dir, "root")}, os.Mkdir(filepath.Join(dir, "root"), 0o755)
	}); err != nil {
		b.Fatal(err)
	}
	s, err := Open(b.Context(), Config{Dir: filepath.Join(dir, "workspaces"), Layers: layers})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	fork := func(b *testing.B, of api.WorkspaceID) api.WorkspaceID {
		w, err := s.Fork(b.Context(), of, New{})
		if err != nil {
			b.Fatal(err)
		}
		return w.ID
	}
	var id api.WorkspaceID
	grow := func(b *testing.B) {
		if id, err = s.Create(b.Context(), "", []layer.Digest{base}); err != nil {
			b.Fatal(err)
		}
		fillFiles(b, filepath.Join(s.path(id), Upper), n)
	}
	b.Run("copy", func(b *testing.B) {
		for range b.N {
			b.StopTimer()
			grow(b)
			from, err := os.Open(filepath.Join(s.path(id), Upper))
			if err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
			w, err := s.insert(b.Context(), record{Workspace: api.Workspace{ID: api.NewWorkspaceID(), Layers: []string{string(base)}}}, 0, func(upper *os.File) error {
				_, err := s.copyInto(b.Context(), int(from.Fd()), upper, false)
				return err
			})
			b.StopTimer()
			from.Close()
			if err == nil {
				err = s.Remove(b.Context(), w.ID, "benchmark")
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("first", func(b *testing.B) {
		for range b.N {
			b.StopTimer()
			grow(b)
			b.StartTimer()
			fork(b, id)
		}
	})
	b.Run("next", func(b *testing.B) {
		for range b.N {
			fork(b, id)
		}
	})
	child := fork(b, id)
	for i := range 10 {
		if err := os.WriteFile(filepath.Join(s.path(child), Upper, fmt.Sprint(i)), []byte("changed"), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("child", func(b *testing.B) {
		for range b.N {
			fork(b, child)
		}
	})
}
