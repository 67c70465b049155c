package volume

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/store/database"
)

type world struct {
	*Store
	db  *database.DB
	dir string
	log *bytes.Buffer
	// full is what CheckSpace answers.
	full error
	node api.NodeID
}

// again opens the store as the next daemon does.
func (w *world) again(t *testing.T) {
	t.Helper()
	w.log = &bytes.Buffer{}
	check := func(context.Context, string, string, int64) error { return w.full }
	s, err := Open(t.Context(), Config{Dir: filepath.Join(w.dir, "volumes"), Rows: w.db, Node: w.node, CheckSpace: check, Logger: slog.New(slog.NewTextHandler(w.log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	w.Store = s
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{dir: t.TempDir()}
	var err error
	if w.db, err = database.OpenSQLite(t.Context(), database.SQLite{Path: filepath.Join(w.dir, "db")}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.db.Close() })
	w.again(t)
	return w
}

func (w *world) make(t *testing.T, name string) api.Volume {
	t.Helper()
	v, err := w.Create(t.Context(), "a", name)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// put writes a file, and replaces one that is there.
func (w *world) put(t *testing.T, v api.Volume, path, content string) {
	t.Helper()
	if _, err := w.Write(t.Context(), v.ID, path, api.VolumeOwner{}, true, -1, strings.NewReader(content)); err != nil {
		t.Fatal(err)
	}
}

func (w *world) content(t *testing.T, v api.Volume, path string) string {
	t.Helper()
	f, _, err := w.Read(t.Context(), v.ID, path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func wantKind(t *testing.T, what string, err error, want api.Kind) {
	t.Helper()
	if err == nil || api.KindOf(err) != want {
		t.Errorf("%s: %v, want %s", what, err, want)
	}
}

// every calls f with each operation on a path.
func (w *world) every(t *testing.T, v api.Volume, path string, f func(op string, err error)) {
	ctx, owner := t.Context(), api.VolumeOwner{UID: new(uint32)}
	_, err := w.Stat(ctx, v.ID, path)
	f("stat", err)
	_, err = w.Entries(ctx, v.ID, path, 9)
	f("list", err)
	file, _, err := w.Read(ctx, v.ID, path)
	if err == nil {
		file.Close()
	}
	f("read", err)
	_, err = w.SetOwner(ctx, v.ID, path, owner)
	f("set owner", err)
	_, err = w.MakeDir(ctx, v.ID, path+"/sub", owner, true)
	f("make directory", err)
	_, err = w.Write(ctx, v.ID, path+"/new", owner, true, -1, strings.NewReader("hostile"))
	f("write", err)
	f("delete", w.Delete(ctx, v.ID, path+"/file"))
}

// TestPathsStayInside: no path leads out of a volume, whatever lies in it. The control is the same names inside.
func TestPathsStayInside(t *testing.T) {
	w := newWorld(t)
	v, other := w.make(t, "one"), w.make(t, "two")
	if _, err := w.MakeDir(t.Context(), other.ID, "/deep", api.VolumeOwner{}, false); err != nil {
		t.Fatal(err)
	}
	w.put(t, other, "/deep/file", "canary")
	outside := filepath.Join(w.dir, "outside")
	if err := errors.Join(os.MkdirAll(filepath.Join(outside, "deep"), 0o700), os.WriteFile(filepath.Join(outside, "deep", "file"), []byte("canary"), 0o600)); err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(w.Store.cfg.Dir, string(v.ID))
	for name, target := range map[string]string{
		"absolute": outside, "relative": "../../outside", "neighbour": "../" + string(other.ID), "self": ".", "file-link": outside + "/deep/file", "magic": "/proc/self/root" + outside,
	} {
		if err := os.Symlink(target, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
		w.every(t, v, "/"+name, func(op string, err error) {
			if op == "stat" && err == nil {
				return // of the link itself
			}
			wantKind(t, op+" of "+name, err, api.KindInvalid)
		})
		// A link on the way, and not at the end.
		for _, path := range []string{"/deep", "/deep/file"} {
			w.every(t, v, "/"+name+path, func(op string, err error) {
				wantKind(t, op+" of "+name+path, err, api.KindInvalid)
			})
		}
	}
	for _, path := range []string{"..", "/..", "a/../../" + string(other.ID), "/../" + aside, outside + "/../outside", "a\x00b", "\xff", strings.Repeat("a", 256), strings.Repeat("a/", 33), strings.Repeat("x", 1025), ""} {
		w.every(t, v, path, func(op string, err error) {
			if path == "" && (op == "make directory" || op == "write" || op == "delete") {
				return // those are of /sub, /new and /file
			}
			wantKind(t, op+" of "+path, err, api.KindInvalid)
		})
	}
	// An absolute path is one below the root of the volume.
	_, err := w.Stat(t.Context(), v.ID, outside+"/deep/file")
	wantKind(t, "absolute path", err, api.KindNotFound)

	for name, dir := range map[string]string{"outside": outside, "the other volume": filepath.Join(w.Store.cfg.Dir, string(other.ID))} {
		if b, err := os.ReadFile(filepath.Join(dir, "deep", "file")); err != nil || string(b) != "canary" {
			t.Errorf("%s: %q, %v", name, b, err)
		}
		for _, dir := range []string{dir, filepath.Join(dir, "deep")} {
			if all, err := os.ReadDir(dir); err != nil || len(all) != 1 {
				t.Errorf("%s: %v, %v", name, all, err)
			}
		}
	}
	e, err := w.Stat(t.Context(), v.ID, "/relative")
	if err != nil || e.Type != api.VolumeSymlink || e.Target != "../../outside" {
		t.Error(e, err)
	}
	if err := w.Delete(t.Context(), v.ID, "/relative"); err != nil {
		t.Error(err)
	}
	// The control.
	if _, err := w.MakeDir(t.Context(), v.ID, "/relative", api.VolumeOwner{}, false); err != nil {
		t.Fatal(err)
	}
	w.put(t, v, "relative/./file", "x")
	w.every(t, v, "/relative", func(op string, err error) {
		if err != nil && op != "read" {
			t.Errorf("%s: %v", op, err)
		}
	})
}

// TestBounds: what is too large or too much is refused, and nothing of it stays.
func TestBounds(t *testing.T) {
	w := newWorld(t)
	v := w.make(t, "one")
	ctx := t.Context()
	w.put(t, v, "/a", "1234")
	u := w.useOf(v.ID)
	set := func(bytes int64, entries int) (back func()) {
		u.bytes += bytes
		u.entries += entries
		return func() { u.bytes -= bytes; u.entries -= entries }
	}
	write := func(path string, length int64, body io.Reader) error {
		_, err := w.Write(ctx, v.ID, path, api.VolumeOwner{}, true, length, body)
		return err
	}
	wantKind(t, "a length that is too large", write("/big", MaxFile+1, strings.NewReader("x")), api.KindExhausted)
	up := upload{use: u, size: MaxFile}
	if _, err := up.Write([]byte("x")); api.KindOf(err) != api.KindExhausted {
		t.Errorf("a byte too much: %v", err)
	}
	back := set(MaxBytes-6, 0)
	wantKind(t, "a full volume", write("/b", -1, strings.NewReader("123")), api.KindExhausted)
	if err := write("/b", -1, strings.NewReader("12")); err != nil {
		t.Error("the control", err)
	}
	back()
	back = set(0, MaxEntries-2)
	wantKind(t, "too many files", write("/c", -1, strings.NewReader("")), api.KindExhausted)
	_, err := w.MakeDir(ctx, v.ID, "/d", api.VolumeOwner{}, false)
	wantKind(t, "too many directories", err, api.KindExhausted)
	if err := write("/b", -1, strings.NewReader("again")); err != nil {
		t.Error("a file that is there can be replaced:", err)
	}
	back()
	u.uploads = maxUploads
	wantKind(t, "too many uploads", write("/c", -1, strings.NewReader("")), api.KindExhausted)
	u.uploads = 0
	w.full = api.Errorf(api.KindExhausted, "full")
	wantKind(t, "a full disk", write("/c", -1, strings.NewReader("")), api.KindExhausted)
	_, err = w.MakeDir(ctx, v.ID, "/d", api.VolumeOwner{}, false)
	wantKind(t, "a full disk", err, api.KindExhausted)
	_, err = w.Create(ctx, "a", "two")
	wantKind(t, "a full disk", err, api.KindExhausted)
	w.full = nil
	wantKind(t, "a body that breaks", write("/c", -1, io.MultiReader(strings.NewReader("half"), broken{})), api.KindInvalid)
	mode := uint32(0o4755)
	_, err = w.Write(ctx, v.ID, "/c", api.VolumeOwner{Mode: &mode}, true, -1, strings.NewReader(""))
	wantKind(t, "setuid", err, api.KindInvalid)

	all, err := w.Entries(ctx, v.ID, "/", 1)
	if err != nil || len(all) != 2 || all[0].Path != "/a" || all[1].Size != 5 {
		t.Error(all, err)
	}
	if left, err := os.ReadDir(w.path(aside)); err != nil || len(left) > 0 {
		t.Error(left, err)
	}
	// What is counted is what a measurement finds.
	want := *w.usage(t, v)
	w.again(t)
	if got := *w.usage(t, v); got != want || want != (counts{bytes: 9, entries: 2}) {
		t.Errorf("%v and %v", got, want)
	}
}

type broken struct{}

// Read implements io.Reader.
func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

type counts struct {
	bytes, uploading int64
	entries, uploads int
}

func (w *world) usage(t *testing.T, v api.Volume) *counts {
	t.Helper()
	var out counts
	err := w.locked(t.Context(), v.ID, func(_ int, u *use) error {
		out = counts{u.bytes, u.uploading, u.entries, u.uploads}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return &out
}

// TestCounts: after writes, replacements and removals the counts are those of a measurement.
func TestCounts(t *testing.T) {
	w := newWorld(t)
	v := w.make(t, "one")
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			dir := "/d" + string(rune('a'+i))
			if _, err := w.MakeDir(t.Context(), v.ID, dir+"/x/y", api.VolumeOwner{}, true); err != nil {
				t.Error(err)
			}
			for n := range 5 {
				w.put(t, v, dir+"/x/f", strings.Repeat("x", n))
				w.put(t, v, dir+"/x/y/g", strings.Repeat("x", 2*n))
			}
			path := dir + "/x/f"
			if i%2 == 0 {
				path = dir + "/x"
			}
			if err := w.Delete(t.Context(), v.ID, path); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	got := *w.usage(t, v)
	if want := (counts{bytes: 4 * 8, entries: 4*4 + 4}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if n, err := w.Bytes(t.Context(), "a"); err != nil || n != got.bytes {
		t.Error(n, err)
	}
	w.again(t)
	if again := *w.usage(t, v); again != got {
		t.Errorf("%+v is measured, %+v was counted", again, got)
	}
}

// TestCrash: directories without a row go at the start, rows without a directory are said and can be removed.
func TestCrash(t *testing.T) {
	w := newWorld(t)
	kept, lost := w.make(t, "kept"), w.make(t, "lost")
	w.put(t, kept, "/a", "content")
	if err := errors.Join(
		os.MkdirAll(w.path(string(api.NewVolumeID())+"/deep/er"), 0o700), // made before its row, or after its row was removed
		os.WriteFile(w.path(aside+"/half"), []byte("x"), 0o600),
		os.RemoveAll(w.path(string(lost.ID))),
		os.Mkdir(w.path("foreign"), 0o700),
	); err != nil {
		t.Fatal(err)
	}
	w.again(t)
	var names []string
	all, err := os.ReadDir(w.cfg.Dir)
	for _, e := range all {
		names = append(names, e.Name())
	}
	if want := []string{aside, "foreign", string(kept.ID)}; err != nil || strings.Join(names, " ") != strings.Join(want, " ") {
		t.Errorf("%q, %v, want %q", names, err, want)
	}
	if left, err := os.ReadDir(w.path(aside)); err != nil || len(left) > 0 {
		t.Error(left, err)
	}
	if got := w.content(t, kept, "/a"); got != "content" {
		t.Error(got)
	}
	if !strings.Contains(w.log.String(), "the directory of a volume is missing") || !strings.Contains(w.log.String(), string(lost.ID)) || strings.Contains(w.log.String(), string(kept.ID)) {
		t.Error(w.log)
	}
	_, err = w.Stat(t.Context(), lost.ID, "/")
	wantKind(t, "what is lost", err, api.KindConflict)
	if _, err := w.Bytes(t.Context(), "a"); err != nil {
		t.Error(err)
	}
	for _, v := range []api.Volume{kept, lost} {
		if err := w.Remove(t.Context(), v.ID); err != nil {
			t.Error(err)
		}
		wantKind(t, "a second removal", w.Remove(t.Context(), v.ID), api.KindNotFound)
		_, err := w.Stat(t.Context(), v.ID, "/")
		wantKind(t, "what was removed", err, api.KindNotFound)
		_, err = w.Write(t.Context(), v.ID, "/a", api.VolumeOwner{}, true, -1, strings.NewReader("x"))
		wantKind(t, "what was removed", err, api.KindNotFound)
	}
	if len(w.uses) > 0 {
		t.Error("uses of volumes that are gone are kept:", w.uses)
	}
}

// TestNode: a node takes what is in its directory, and says nothing of volumes that others have.
func TestNode(t *testing.T) {
	w := newWorld(t)
	v := w.make(t, "before")
	w.node = api.NewNodeID()
	elsewhere := api.Volume{ID: api.NewVolumeID(), Account: "a", Name: "elsewhere", CreatedAt: v.CreatedAt, Node: api.NewNodeID()}
	nobody, lost := elsewhere, elsewhere
	nobody.ID, nobody.Name, nobody.Node = api.NewVolumeID(), "nobody", ""
	lost.ID, lost.Name, lost.Node = api.NewVolumeID(), "lost", w.node
	for _, o := range []api.Volume{elsewhere, nobody, lost} {
		if err := w.db.InsertVolume(t.Context(), o, MaxVolumes); err != nil {
			t.Fatal(err)
		}
	}
	w.again(t)
	for id, want := range map[api.VolumeID]api.NodeID{v.ID: w.node, elsewhere.ID: elsewhere.Node, nobody.ID: "", lost.ID: w.node, w.make(t, "after").ID: w.node} {
		if got, err := w.Get(t.Context(), id); err != nil || got.Node != want {
			t.Errorf("%+v, %v, want node %q", got, err, want)
		}
	}
	if said := w.log.String(); strings.Count(said, "is missing") != 1 || !strings.Contains(said, string(lost.ID)) {
		t.Errorf("the log: %s", said)
	}
}
