package upkeep_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/internal/daemon/upkeep"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/snapshot"
	"hortus.dev/internal/storage/space"
	"hortus.dev/internal/store"
	"hortus.dev/internal/store/database"
)

// TestSnapshots: old plain snapshots and what is left of broken ones go; templates,
// pauses and young ones stay, and so do the layers that they stand on.
func TestSnapshots(t *testing.T) {
	dir := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	db, err := database.OpenSQLite(t.Context(), database.SQLite{Path: filepath.Join(dir, "hortus.db")})
	must(err)
	defer db.Close()
	owner := api.NewOwnerID()
	must(db.InsertOwner(t.Context(), store.Owner{ID: owner, Host: "here", LockPath: "/x", PID: 1, StartedAt: time.Now()}))
	layers, err := layer.Open(filepath.Join(dir, "layers"))
	must(err)
	digest := func(c byte) layer.Digest {
		b := []byte("sha256-0000000000000000000000000000000000000000000000000000000000000000")
		b[len(b)-1] = c
		return layer.Digest(b)
	}
	for _, c := range []byte("012") {
		_, err := layers.Put(t.Context(), digest(c), func(_ context.Context, dir string) (layer.Tree, error) {
			return layer.Tree{Root: dir, Path: "/bin"}, nil
		})
		must(err)
	}
	now := time.Now().Add(-30 * 24 * time.Hour)
	snaps, err := snapshot.Open(snapshot.Config{
		Dir: filepath.Join(dir, "snapshots"), Layers: layers, Rows: db, Owner: owner, Space: space.New(space.Config{Dir: dir, FloorBytes: 1}),
		Now: func() time.Time { return now },
	})
	must(err)
	defer snaps.Close()
	make := func(on layer.Digest, change func(*api.Snapshot)) api.SnapshotID {
		r := api.Snapshot{ID: api.NewSnapshotID(), Kind: api.SnapshotMemory, Sandbox: api.NewSandboxID(), Layers: []string{string(on)}}
		if change != nil {
			change(&r)
		}
		r, err := snaps.Write(t.Context(), r, 0, func(_ context.Context, dir string, _ *api.Snapshot) error {
			return os.WriteFile(filepath.Join(dir, "image"), []byte("image"), 0o600)
		})
		must(err)
		return r.ID
	}
	named := make(digest('0'), func(r *api.Snapshot) { r.Name = "py" })
	paused := make(digest('0'), func(r *api.Snapshot) { r.Paused = true })
	old := make(digest('1'), nil)
	broken := make(digest('1'), nil)
	image := filepath.Join(snaps.Dir(), string(broken), "image")
	must(os.Chmod(image, 0o600))
	must(os.Truncate(image, 2))
	if _, _, _, err := snaps.Use(t.Context(), broken); api.KindOf(err) != api.KindConflict {
		t.Fatal(err)
	}
	now = time.Now()
	young := make(digest('0'), nil)
	unknown := api.NewSnapshotID()
	must(os.Mkdir(filepath.Join(snaps.Dir(), string(unknown)), 0o700))

	k := upkeep.New(upkeep.Config{
		Dir: dir, Layers: layers, Snapshots: snaps,
		Named:   func(_ context.Context, f func([]layer.Digest) error) error { return f(nil) },
		Task:    db.Task,
		Orphans: func(context.Context) ([]upkeep.Orphan, error) { return nil, nil },
	})
	for _, d := range []layer.Digest{digest('1'), digest('2')} { // not used for long
		must(os.Chtimes(filepath.Join(layers.Dir(), string(d), "tree.json"), time.Time{}, now.Add(-8*24*time.Hour)))
	}
	use, err := k.Usage(t.Context())
	must(err)
	for _, p := range use.Parts {
		if p.Name == admin.PartSnapshots && (p.Count != 6 || p.Bytes == 0 || p.ReclaimableBytes == 0 || p.ReclaimableBytes >= p.Bytes) {
			t.Errorf("%+v", p)
		}
	}
	got, err := k.Collect(t.Context(), admin.CollectRequest{})
	must(err)
	gone := map[string]bool{}
	for _, it := range got.Items {
		if it.Error != nil {
			t.Errorf("%+v", it)
		}
		gone[it.Name] = true
	}
	for _, id := range []api.SnapshotID{old, broken, unknown} {
		if !gone[string(id)] {
			t.Errorf("%s stays", id)
		}
	}
	if len(gone) != 5 || !gone[string(digest('1'))] || !gone[string(digest('2'))] {
		t.Errorf("collected %v", gone)
	}
	for _, id := range []api.SnapshotID{named, paused, young} {
		if _, _, done, err := snaps.Use(t.Context(), id); err != nil {
			t.Errorf("%s went: %v", id, err)
		} else {
			done()
		}
	}
}
