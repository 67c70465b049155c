package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/storage/layer"
)

// shows returns what a workspace's sandboxes see: paths with their mode and content.
func (f *fixture) shows(t *testing.T, id api.WorkspaceID) map[string]string {
	t.Helper()
	out := map[string]string{}
	w, err := f.Walk(t.Context(), id, WalkOptions{}, func(e Entry) error {
		out[e.Path] = string(e.Mode)
		if e.Open == nil {
			return nil
		}
		r, err := e.Open()
		if err != nil {
			return err
		}
		defer r.Close()
		b, err := io.ReadAll(r)
		out[e.Path] += " " + string(b)
		return err
	})
	must(t, err)
	if !w.Complete || len(w.Refused) > 0 {
		t.Errorf("refused: %v", w.Refused)
	}
	return out
}

func equal(t *testing.T, what string, got, want map[string]string) {
	t.Helper()
	for p, v := range want {
		if got[p] != v {
			t.Errorf("%s: %s is %q; want %q", what, p, got[p], v)
		}
	}
	for p, v := range got {
		if _, ok := want[p]; !ok {
			t.Errorf("%s: %s is there: %q", what, p, v)
		}
	}
}

func whiteOut(t *testing.T, path string) {
	t.Helper()
	must(t, unix.Mknod(path, unix.S_IFCHR, 0))
}

// edited is a workspace that changed, hid and removed files of its layer.
func edited(t *testing.T) (f *fixture, id api.WorkspaceID, upper string, want map[string]string) {
	f = newFixture(t, func(root string) {
		put(t, root, map[string]string{"keep": "old", "edit": "old", "gone": "old", "hidden/a": "old", "dir/b": "old", "bin": "x"})
	})
	id, upper = f.create(t)
	put(t, upper, map[string]string{"edit": "new", "dir/c": "new", "hidden/d": "new", "link": "->../../etc/passwd", "empty/": ""})
	must(t, os.Chmod(filepath.Join(upper, "edit"), 0o755))
	must(t, os.Link(filepath.Join(upper, "edit"), filepath.Join(upper, "dir/again")))
	whiteOut(t, filepath.Join(upper, "gone"))
	must(t, unix.Setxattr(filepath.Join(upper, "hidden"), prefix+"opaque", []byte("y"), 0))
	must(t, unix.Setxattr(filepath.Join(upper, "dir"), prefix+"impure", []byte("y"), 0))
	must(t, unix.Setxattr(filepath.Join(upper, "edit"), "user.mine", []byte("1"), 0))
	return f, id, upper, map[string]string{
		"keep": "regular old", "edit": "executable new", "hidden": "directory", "hidden/d": "regular new", "dir": "directory", "dir/b": "regular old",
		"dir/c": "regular new", "dir/again": "executable new", "link": "symlink ../../etc/passwd", "bin": "regular x", "empty": "directory",
	}
}

func TestWalk(t *testing.T) {
	f, id, upper, want := edited(t)
	equal(t, "walk", f.shows(t, id), want)

	// What cannot be shown is listed.
	put(t, upper, map[string]string{".git/config": "x", "sub/.GIT": "x", "\xff": "x"})
	must(t, unix.Mkfifo(filepath.Join(upper, "fifo"), 0o600))
	put(t, upper, map[string]string{"redirected": "x"})
	must(t, unix.Setxattr(filepath.Join(upper, "redirected"), prefix+"redirect", []byte("/etc"), 0))
	seen := map[string]bool{}
	w, err := f.Walk(t.Context(), id, WalkOptions{}, func(e Entry) error { seen[e.Path] = true; return nil })
	must(t, err)
	if len(w.Refused) != 5 || !w.Complete || seen[".git"] || seen["fifo"] || seen["redirected"] {
		t.Errorf("refused %v, seen %v", w.Refused, seen)
	}
	w, err = f.Walk(t.Context(), id, WalkOptions{Git: true}, func(e Entry) error { seen[e.Path] = true; return nil })
	must(t, err)
	if len(w.Refused) != 3 || !seen[".git/config"] {
		t.Errorf("with git: refused %v", w.Refused)
	}
	for name, o := range map[string]WalkOptions{"files": {Files: 2}, "bytes": {Bytes: 2}, "depth": {Depth: 1}} {
		w, err := f.Walk(t.Context(), id, o, func(Entry) error { return nil })
		if err != nil || w.Complete && (name == "files" || len(w.Refused) <= 5) {
			t.Errorf("limit of %s: %+v, %v", name, w, err)
		}
	}
	l, err := f.Lease(t.Context(), id)
	must(t, err)
	defer l.Release()
	_, err = f.Walk(t.Context(), id, WalkOptions{}, func(Entry) error { return nil })
	wantKind(t, err, api.KindConflict)
}

func TestFork(t *testing.T) {
	f, id, upper, want := edited(t)
	// Directories and files that are shut must not keep a daemon of their own id out.
	put(t, upper, map[string]string{"shut/f": "x"})
	must(t, os.Chmod(filepath.Join(upper, "shut/f"), 0))
	must(t, os.Chmod(filepath.Join(upper, "shut"), 0))
	must(t, f.SetQuota(t.Context(), id, 1<<20))
	w, err := f.Fork(t.Context(), id, New{Name: "copy", Account: "alice", Keep: true})
	must(t, err)
	t.Cleanup(func() { RemoveAll(context.Background(), f.path(w.ID)) })
	row := f.rows.all[w.ID]
	if w.Parent != id || w.QuotaBytes != 1<<20 || row.Name != "copy" || row.Account != "alice" || !row.Keep || row.State != api.WorkspaceIdle {
		t.Errorf("%+v", row)
	}
	child := filepath.Join(f.path(w.ID), Upper)
	for _, p := range []string{"shut", "shut/f"} {
		for _, dir := range []string{upper, child} {
			if os.Geteuid() != 0 && p == "shut/f" {
				continue // the test cannot look
			}
			st, err := os.Lstat(filepath.Join(dir, p))
			must(t, err)
			if st.Mode().Perm() != 0 {
				t.Errorf("%s in %s has mode %v", p, dir, st.Mode())
			}
		}
	}
	for _, dir := range []string{upper, child} {
		must(t, os.Chmod(filepath.Join(dir, "shut"), 0o700))
		must(t, RemoveAll(t.Context(), filepath.Join(dir, "shut")))
	}
	equal(t, "fork", f.shows(t, w.ID), want)
	var a, b unix.Stat_t
	must(t, unix.Lstat(filepath.Join(child, "edit"), &a))
	must(t, unix.Lstat(filepath.Join(child, "dir/again"), &b))
	if a.Ino != b.Ino || a.Mode&0o777 != 0o755 {
		t.Error("a hard link became a file of its own")
	}
	value := make([]byte, 8)
	if n, err := unix.Getxattr(filepath.Join(child, "edit"), "user.mine", value); err != nil || string(value[:n]) != "1" {
		t.Errorf("attribute: %v", err)
	}
	if _, err := unix.Getxattr(filepath.Join(child, "dir"), prefix+"impure", value); err != unix.ENODATA {
		t.Errorf("a note about another mount was copied: %v", err)
	}
	// They diverge.
	put(t, child, map[string]string{"keep": "mine"})
	if got := f.shows(t, id)["keep"]; got != "regular old" {
		t.Errorf("the parent has %q", got)
	}
	// A mark that our overlays do not write would show other files: it is refused, and
	// nothing is left of the copy.
	must(t, unix.Setxattr(filepath.Join(upper, "dir"), prefix+"redirect", []byte("/"), 0))
	before, _ := os.ReadDir(f.Dir())
	_, err = f.Fork(t.Context(), id, New{})
	if err == nil {
		t.Error("a redirect was copied")
	}
	if after, _ := os.ReadDir(f.Dir()); len(after) != len(before) {
		t.Errorf("left: %v", after)
	}
	l, err := f.Lease(t.Context(), id)
	must(t, err)
	defer l.Release()
	_, err = f.Fork(t.Context(), id, New{})
	wantKind(t, err, api.KindConflict)
}

func TestSparseFork(t *testing.T) {
	f := newFixture(t, nil)
	id, upper := f.create(t)
	file, err := os.Create(filepath.Join(upper, "sparse"))
	must(t, err)
	_, err = file.WriteAt([]byte("end"), 1<<30)
	must(t, err)
	must(t, file.Close())
	w, err := f.Fork(t.Context(), id, New{})
	must(t, err)
	var st unix.Stat_t
	must(t, unix.Lstat(filepath.Join(f.path(w.ID), Upper, "sparse"), &st))
	if st.Size != 1<<30+3 || st.Blocks*512 > 1<<20 {
		t.Errorf("%d bytes take %d", st.Size, st.Blocks*512)
	}
}

func TestSeal(t *testing.T) {
	f, id, upper, want := edited(t)
	sealed, err := f.Seal(t.Context(), id)
	must(t, err)
	w, err := f.Get(id)
	must(t, err)
	if len(w.Layers) != 2 || w.Layers[1] != string(sealed.Layer) || sealed.Usage.Files < 8 {
		t.Errorf("%+v, %v", sealed, w.Layers)
	}
	if row := f.rows.all[id]; len(row.Layers) != 2 || row.State != api.WorkspaceIdle {
		t.Errorf("row %+v", row)
	}
	if list, err := os.ReadDir(upper); err != nil || len(list) != 0 {
		t.Errorf("the upper layer has %v, %v", list, err)
	}
	equal(t, "sealed", f.shows(t, id), want)
	if again, err := f.Seal(t.Context(), id); err != nil || again.Layer != "" {
		t.Errorf("nothing was sealed: %+v, %v", again, err)
	}
	// Later changes are seen over the seal.
	whiteOut(t, filepath.Join(upper, "keep"))
	put(t, upper, map[string]string{"gone": "back"})
	delete(want, "keep")
	want["gone"] = "regular back"
	equal(t, "over the seal", f.shows(t, id), want)
	_, err = f.Seal(t.Context(), id)
	must(t, err)
	equal(t, "sealed twice", f.shows(t, id), want)
	// The same content is the same layer, wherever it was written.
	other, _ := f.create(t)
	l, err := f.Lease(t.Context(), other)
	must(t, err)
	wantKind(t, second(f.Seal(t.Context(), other)), api.KindConflict)
	l.Release()
	if entries, _ := filepath.Glob(filepath.Join(f.Dir(), aside+"*")); len(entries) != 0 {
		t.Errorf("left: %v", entries)
	}
	// The number of layers is bounded.
	for i := len(f.rows.all[id].Layers); i < MaxLayers; i++ {
		put(t, upper, map[string]string{fmt.Sprintf("n%d", i): "x"})
		_, err := f.Seal(t.Context(), id)
		must(t, err)
	}
	put(t, upper, map[string]string{"one more": "x"})
	wantKind(t, second(f.Seal(t.Context(), id)), api.KindExhausted)
	if f.shows(t, id)["one more"] != "regular x" {
		t.Error("a refused seal lost a file")
	}
}

func second[T any](_ T, err error) error { return err }

// TestSealCost: a seal reads and writes what was written since the last one, whatever lies
// below it.
func TestSealCost(t *testing.T) {
	const files = 4_000
	f := newFixture(t, func(root string) {
		for d := range files / 1000 {
			dir := filepath.Join(root, fmt.Sprint(d))
			must(t, os.Mkdir(dir, 0o755))
			for i := range 1000 {
				must(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), []byte("x"), 0o644))
			}
		}
	})
	id, upper := f.create(t)
	for i := range 100 {
		put(t, upper, map[string]string{fmt.Sprintf("%d/%d", i%4, i): strings.Repeat("y", 1000)})
	}
	sealed, err := f.Seal(t.Context(), id)
	must(t, err)
	// 100 files, 4 directories, and the four of the workspace itself.
	if n := sealed.Usage.Files; n < 104 || n > 110 {
		t.Errorf("%d files were sealed over %d", n, files)
	}
	if u, err := f.Usage(t.Context(), id); err != nil || u.Files > 6 {
		t.Errorf("after it: %+v, %v", u, err)
	}
}

// TestQuota: the record has the quota, a lease gives it, and one in use keeps it.
func TestQuota(t *testing.T) {
	f := newFixture(t, nil)
	w, err := f.Make(t.Context(), New{Layers: []layer.Digest{f.base}, Quota: 5, Name: "a", Account: "alice", Keep: true})
	must(t, err)
	l, err := f.Lease(t.Context(), w.ID)
	must(t, err)
	if l.Quota() != 5 {
		t.Errorf("quota %d", l.Quota())
	}
	wantKind(t, f.SetQuota(t.Context(), w.ID, 6), api.KindConflict)
	l.Release()
	must(t, f.SetQuota(t.Context(), w.ID, 6))
	wantKind(t, f.SetQuota(t.Context(), w.ID, 0), api.KindInvalid)
	got, err := f.Get(w.ID)
	if err != nil || got.QuotaBytes != 6 || f.rows.all[w.ID].QuotaBytes != 6 || got.Name != "a" || got.Account != "alice" || !got.Keep {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestOld: a change says what it replaces.
func TestOld(t *testing.T) {
	f, id, _, _ := edited(t)
	c, err := f.Changes(t.Context(), id, Limits{})
	must(t, err)
	defer c.Close()
	got := map[string]string{}
	for _, ch := range c.List {
		if ch.Old == nil {
			got[ch.Path] = "new"
			continue
		}
		r, err := ch.Old.Open()
		must(t, err)
		b, err := io.ReadAll(r)
		must(t, errors.Join(err, r.Close()))
		got[ch.Path] = fmt.Sprintf("%t %s %d %s", ch.Delete, ch.Old.Mode, ch.Old.Size, b)
	}
	equal(t, "changes", got, map[string]string{
		"edit": "false regular 3 old", "gone": "true regular 3 old", "hidden/a": "true regular 3 old", "hidden/d": "new", "dir/c": "new", "dir/again": "new", "link": "new",
	})
}
