package snapshot_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/snapshot"
	"hortus.dev/internal/storage/space"
	"hortus.dev/internal/store"
	"hortus.dev/internal/store/database"
)

// world is a store of snapshots with its database and layers.
type world struct {
	*snapshot.Store
	db     *database.DB
	layers *layer.Store
	dir    string
	owner  api.OwnerID
}

const onLayer = layer.Digest("sha256-0000000000000000000000000000000000000000000000000000000000000001")

func open(t testing.TB, dir string) *world {
	t.Helper()
	w := &world{dir: filepath.Join(dir, "snapshots"), owner: api.NewOwnerID()}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var err error
	w.db, err = database.OpenSQLite(t.Context(), database.SQLite{Path: filepath.Join(dir, "db")})
	must(err)
	t.Cleanup(func() { w.db.Close() })
	must(w.db.InsertOwner(t.Context(), store.Owner{ID: w.owner, Host: "here", LockPath: "/x", PID: 1, StartedAt: time.Now()}))
	w.layers, err = layer.Open(filepath.Join(dir, "layers"))
	must(err)
	_, err = w.layers.Put(t.Context(), onLayer, func(_ context.Context, dir string) (layer.Tree, error) {
		return layer.Tree{Root: dir, Path: "/bin"}, nil
	})
	must(err)
	w.Store, err = snapshot.Open(snapshot.Config{Dir: w.dir, Layers: w.layers, Rows: w.db, Owner: w.owner, Space: space.New(space.Config{Dir: w.dir, FloorBytes: 1})})
	must(err)
	t.Cleanup(func() { w.Store.Close() })
	return w
}

// row is a snapshot to be made.
func row(change func(*api.Snapshot)) api.Snapshot {
	r := api.Snapshot{
		ID: api.NewSnapshotID(), Kind: api.SnapshotMemory, Sandbox: api.NewSandboxID(), Template: "host",
		Layers: []string{string(onLayer)}, Image: api.ImageMark{Backend: "b", Kernel: "1"},
	}
	if change != nil {
		change(&r)
	}
	return r
}

// image writes two files.
func image(_ context.Context, dir string, r *api.Snapshot) error {
	r.PausedMS = 7
	return errors.Join(os.WriteFile(filepath.Join(dir, "pages.img"), bytes.Repeat([]byte("page"), 1<<18), 0o644),
		os.WriteFile(filepath.Join(dir, "state"), []byte("secret"), 0o666))
}

func (w *world) write(t testing.TB, change func(*api.Snapshot)) api.Snapshot {
	t.Helper()
	r, err := w.Write(t.Context(), row(change), 0, image)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (w *world) state(t testing.TB, id api.SnapshotID) api.Snapshot {
	t.Helper()
	r, err := w.Snapshot(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestWriteAndUse(t *testing.T) {
	w := open(t, t.TempDir())
	r := w.write(t, nil)
	if r.State != api.SnapshotReady || r.Bytes != 1<<20+6 || r.PausedMS != 7 || r.Owner != w.owner {
		t.Errorf("made %+v", r)
	}
	got, dir, done, err := w.Use(t.Context(), r.ID)
	if err != nil || got.ID != r.ID {
		t.Fatalf("%+v, %v", got, err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "state")); err != nil || string(b) != "secret" {
		t.Errorf("%q, %v", b, err)
	}
	for name, mode := range map[string]os.FileMode{"state": 0o400, "pages.img": 0o400, "manifest.json": 0o400, ".": 0o700, "..": 0o700} {
		if st, err := os.Stat(filepath.Join(dir, name)); err != nil || st.Mode().Perm() != mode {
			t.Errorf("mode of %s: %v, %v", name, st.Mode(), err)
		}
	}
	// Removed while in use: nobody new gets it, and the files go with the last.
	if got, err := w.Remove(t.Context(), r.ID, "test"); err != nil || got.State != api.SnapshotRemoved {
		t.Errorf("removed: %+v, %v", got, err)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Errorf("removed below its user: %v", err)
	}
	if _, _, _, err := w.Use(t.Context(), r.ID); api.KindOf(err) != api.KindNotFound {
		t.Errorf("used after its end: %v", err)
	}
	done()
	if all, _ := os.ReadDir(w.dir); len(all) != 0 {
		t.Errorf("left: %v", all)
	}
}

// TestShared: a file that is elsewhere too is not what a snapshot added to the disk.
func TestShared(t *testing.T) {
	w := open(t, t.TempDir())
	base := filepath.Join(t.TempDir(), "base")
	if err := os.WriteFile(base, make([]byte, 5000), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, linked := range []bool{true, false} {
		r, err := w.Write(t.Context(), api.Snapshot{ID: api.NewSnapshotID(), Sandbox: api.NewSandboxID()}, 0, func(_ context.Context, dir string, _ *api.Snapshot) error {
			err := os.WriteFile(filepath.Join(dir, "own"), make([]byte, 300), 0o600)
			if linked {
				err = errors.Join(err, os.Link(base, filepath.Join(dir, "base")))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		want := int64(0)
		if linked {
			want = 5000
		}
		if r.Bytes != 300 || r.SharedBytes != want {
			t.Errorf("linked %v: %d bytes, %d shared", linked, r.Bytes, r.SharedBytes)
		}
		if got, err := w.Snapshot(t.Context(), r.ID); err != nil || got.Bytes != r.Bytes || got.SharedBytes != r.SharedBytes {
			t.Errorf("stored: %d and %d, %v", got.Bytes, got.SharedBytes, err)
		}
		if _, _, done, err := w.Use(t.Context(), r.ID); err != nil {
			t.Error(err)
		} else {
			done()
		}
	}
}

// TestDamage: nothing is given out that is not byte for byte what was saved. The
// control is TestWriteAndUse, where the same is whole.
func TestDamage(t *testing.T) {
	for name, harm := range map[string]func(t *testing.T, dir string) error{
		"a byte": func(t *testing.T, dir string) error {
			f, err := os.OpenFile(filepath.Join(dir, "pages.img"), os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = f.WriteAt([]byte("X"), 1<<19)
			return err
		},
		"cut short":    func(_ *testing.T, dir string) error { return os.Truncate(filepath.Join(dir, "pages.img"), 1<<19) },
		"a file less":  func(_ *testing.T, dir string) error { return os.Remove(filepath.Join(dir, "state")) },
		"a file more":  func(_ *testing.T, dir string) error { return os.WriteFile(filepath.Join(dir, "more"), nil, 0o600) },
		"no manifest":  func(_ *testing.T, dir string) error { return os.Remove(filepath.Join(dir, "manifest.json")) },
		"no directory": func(_ *testing.T, dir string) error { return os.RemoveAll(dir) },
		"a second name": func(_ *testing.T, dir string) error {
			return os.Link(filepath.Join(dir, "manifest.json"), dir+"-manifest")
		},
		"a link": func(t *testing.T, dir string) error {
			out := filepath.Join(t.TempDir(), "state")
			return errors.Join(os.Rename(filepath.Join(dir, "state"), out), os.Symlink(out, filepath.Join(dir, "state")))
		},
		"a directory that is a link": func(t *testing.T, dir string) error {
			out := filepath.Join(t.TempDir(), "all")
			return errors.Join(os.Rename(dir, out), os.Symlink(out, dir))
		},
		"another's manifest": func(t *testing.T, dir string) error {
			path := filepath.Join(dir, "manifest.json")
			b, err := os.ReadFile(path)
			var m map[string]any
			err = errors.Join(err, json.Unmarshal(b, &m))
			m["snapshot"].(map[string]any)["image"] = map[string]any{"backend": "other"}
			b, _ = json.Marshal(m)
			return errors.Join(err, os.Chmod(path, 0o600), os.WriteFile(path, b, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := open(t, t.TempDir())
			r := w.write(t, nil)
			// Once as it is, so that a change after the first look is found as well.
			if _, _, done, err := w.Use(t.Context(), r.ID); err != nil {
				t.Fatal(err)
			} else {
				done()
			}
			dir := filepath.Join(w.dir, string(r.ID))
			if err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
				if err == nil && !d.IsDir() {
					err = os.Chmod(p, 0o600)
				}
				return err
			}); err != nil {
				t.Fatal(err)
			}
			if err := harm(t, dir); err != nil {
				t.Fatal(err)
			}
			_, _, _, err := w.Use(t.Context(), r.ID)
			if api.KindOf(err) != api.KindConflict || !strings.Contains(err.Error(), "broken") {
				t.Fatalf("used: %v", err)
			}
			if got := w.state(t, r.ID); got.State != api.SnapshotBroken || got.Reason == "" {
				t.Errorf("row %+v", got)
			}
			if _, _, _, err := w.Use(t.Context(), r.ID); api.KindOf(err) != api.KindConflict {
				t.Errorf("used again: %v", err)
			}
		})
	}
}

// TestHostileImage: what a backend wrote is mistaken for files alone.
func TestHostileImage(t *testing.T) {
	for name, save := range map[string]func(dir string) error{
		"a link":      func(dir string) error { return os.Symlink("/etc/hostname", filepath.Join(dir, "x")) },
		"a directory": func(dir string) error { return os.Mkdir(filepath.Join(dir, "x"), 0o700) },
		"a pipe":      func(dir string) error { return unix.Mkfifo(filepath.Join(dir, "x"), 0o600) },
		"a bad name":  func(dir string) error { return os.WriteFile(filepath.Join(dir, "a\nb"), nil, 0o600) },
		"a manifest":  func(dir string) error { return os.WriteFile(filepath.Join(dir, "manifest.json"), nil, 0o600) },
		"an error":    func(string) error { return api.Errorf(api.KindUnsupported, "no") },
		"many files": func(dir string) error {
			var errs []error
			for i := range 65 {
				errs = append(errs, os.WriteFile(filepath.Join(dir, "f"+string(rune('0'+i/10))+string(rune('0'+i%10))), nil, 0o600))
			}
			return errors.Join(errs...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := open(t, t.TempDir())
			want := row(nil)
			_, err := w.Write(t.Context(), want, 0, func(_ context.Context, dir string, _ *api.Snapshot) error { return save(dir) })
			if err == nil {
				t.Fatal("it was kept")
			}
			if got := w.state(t, want.ID); got.State != api.SnapshotBroken || got.Reason == "" {
				t.Errorf("row %+v", got)
			}
			if all, _ := os.ReadDir(w.dir); len(all) != 0 {
				t.Errorf("left: %v", all)
			}
		})
	}
}

func TestTemplates(t *testing.T) {
	w := open(t, t.TempDir())
	a := w.write(t, func(r *api.Snapshot) { r.Name = "py" })
	if id, err := w.Find(t.Context(), "py"); err != nil || id != a.ID {
		t.Errorf("found %s, %v", id, err)
	}
	b := w.write(t, func(r *api.Snapshot) { r.Name = "py" })
	other := w.write(t, func(r *api.Snapshot) { r.Name = "go" })
	if id, err := w.Find(t.Context(), "py"); err != nil || id != b.ID {
		t.Errorf("found %s, %v; want the newer", id, err)
	}
	if old := w.state(t, a.ID); old.State != api.SnapshotRemoved || old.Name != "" || !strings.Contains(old.Reason, string(b.ID)) {
		t.Errorf("the older one: %+v", old)
	}
	if id, err := w.Find(t.Context(), string(other.ID[:8])); err != nil || id != other.ID {
		t.Errorf("found %s, %v", id, err)
	}
	if _, err := w.Template(t.Context(), "", ""); api.KindOf(err) != api.KindNotFound {
		t.Errorf("a template without a name: %v", err)
	}
}

func TestLayers(t *testing.T) {
	w := open(t, t.TempDir())
	r := w.write(t, nil)
	if err := w.Named(t.Context(), func(named []layer.Digest) error {
		if len(named) != 1 || named[0] != onLayer {
			t.Errorf("named %v", named)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := w.layers.Remove(onLayer); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := w.Use(t.Context(), r.ID); api.KindOf(err) != api.KindConflict || !strings.Contains(err.Error(), string(onLayer)) {
		t.Errorf("used without its layer: %v", err)
	}
	if got := w.state(t, r.ID); got.State != api.SnapshotReady {
		t.Errorf("row %+v; the layer may come back", got)
	}
	if _, err := w.Write(t.Context(), row(nil), 0, image); api.KindOf(err) != api.KindConflict {
		t.Errorf("made without its layer: %v", err)
	}
}

func TestFloor(t *testing.T) {
	w := open(t, t.TempDir())
	if _, err := w.Write(t.Context(), row(nil), 1<<60, image); api.KindOf(err) != api.KindExhausted {
		t.Errorf("saved without room: %v", err)
	}
}

func FuzzManifest(f *testing.F) {
	w := open(f, f.TempDir())
	r := w.write(f, nil)
	b, err := os.ReadFile(filepath.Join(w.dir, string(r.ID), "manifest.json"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(`{"version":1,"files":[{"name":"../x","bytes":1,"sha256":""}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if snapshot.ParseManifest(bytes.NewReader(b)) == nil && bytes.Contains(b, []byte(`"../`)) && !bytes.Contains(b, []byte("snapshot")) {
			t.Error("a path was taken for a name")
		}
	})
}

// TestStored: snapshots take what their files do, one that several share once, and nothing after they were removed.
func TestStored(t *testing.T) {
	w := open(t, t.TempDir())
	first := w.write(t, nil)
	second, err := w.Write(t.Context(), row(nil), 0, func(_ context.Context, dir string, _ *api.Snapshot) error {
		return os.Link(filepath.Join(w.dir, string(first.ID), "pages.img"), filepath.Join(dir, "pages.img"))
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, ids := range map[string][]api.SnapshotID{
		"one": {first.ID}, "both": {first.ID, second.ID}, "the one with the link": {second.ID, api.NewSnapshotID()},
	} {
		if n, err := w.Stored(ids); n < 1<<20 || n > 1<<20+64<<10 || err != nil {
			t.Errorf("%s: %d bytes, %v", name, n, err)
		}
	}
	if _, err := w.Remove(t.Context(), first.ID, "test"); err != nil {
		t.Fatal(err)
	}
	if n, err := w.Stored([]api.SnapshotID{first.ID}); n != 0 || err != nil {
		t.Errorf("removed: %d bytes, %v", n, err)
	}
}
