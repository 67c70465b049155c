package snapshot_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/storage/snapshot"
	"hortus.dev/test/storetest"
)

// named makes a snapshot of an account with names.
func (w *world) named(t testing.TB, account string, names ...string) api.Snapshot {
	t.Helper()
	return w.write(t, func(r *api.Snapshot) {
		r.Account = account
		r.SetNames(names)
	})
}

// is checks which snapshot an account means by names.
func (w *world) is(t testing.TB, account string, want api.SnapshotID, names ...string) {
	t.Helper()
	for _, n := range names {
		if got, err := w.Template(t.Context(), account, n); err != nil && want != "" || got.ID != want {
			t.Errorf("%s of %q is %s, %v; want %q", n, account, got.ID, err, want)
		}
	}
}

// removed checks that a snapshot and its files were removed.
func (w *world) removed(t testing.TB, id api.SnapshotID, reason string) {
	t.Helper()
	if got := w.state(t, id); got.State != api.SnapshotRemoved || got.Name != "" || got.OtherNames != nil || !strings.Contains(got.Reason, reason) || got.EndedAt.IsZero() {
		t.Errorf("row %+v; want it removed: %s", got, reason)
	}
	if _, err := os.Stat(filepath.Join(w.dir, string(id))); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("files of %s: %v", id, err)
	}
}

func TestTags(t *testing.T) {
	w := open(t, t.TempDir())
	ctx := t.Context()
	theirs := w.named(t, "bob", "web", "web:v1")
	operators := w.named(t, "", "web:shared", "web:v1")
	first := w.named(t, "alice", "web", "web:v1")
	w.is(t, "alice", first.ID, "web", "web:default", "web:v1")
	w.is(t, "alice", operators.ID, "web:shared")
	second := w.named(t, "alice", "web")
	w.is(t, "alice", second.ID, "web", "web:default")
	w.is(t, "alice", first.ID, "web:v1")

	// A name goes back to the older one, and what has no other is removed.
	got, err := w.Tag(ctx, first.ID, []string{"web", "web:stable"})
	if err != nil || !slices.Equal(got.Names(), []string{"web", "web:stable", "web:v1"}) {
		t.Errorf("tagged: %v, %v", got.Names(), err)
	}
	w.is(t, "alice", first.ID, "web", "web:stable", "web:v1")
	w.removed(t, second.ID, "replaced by "+string(first.ID))
	if again, err := w.Tag(ctx, first.ID, []string{"web"}); err != nil || !slices.Equal(again.Names(), got.Names()) {
		t.Errorf("tagged again: %v, %v", again.Names(), err)
	}

	for _, n := range []string{"web", "web:v1"} {
		if got, err := w.Untag(ctx, first.ID, n); err != nil || got.HasName(n) || got.State != api.SnapshotReady {
			t.Errorf("without %s: %+v, %v", n, got, err)
		}
		if _, err := w.Untag(ctx, first.ID, n); api.KindOf(err) != api.KindNotFound {
			t.Errorf("without %s again: %v", n, err)
		}
	}
	w.is(t, "alice", operators.ID, "web:v1", "web:shared") // which hers hid
	w.is(t, "alice", first.ID, "web:stable")
	if got, err := w.Untag(ctx, first.ID, "web:stable"); err != nil || got.State != api.SnapshotRemoved {
		t.Errorf("the last: %+v, %v", got, err)
	}
	w.removed(t, first.ID, "last name")

	plain := w.write(t, func(r *api.Snapshot) { r.Account = "alice" })
	for _, id := range []api.SnapshotID{plain.ID, first.ID, api.NewSnapshotID()} {
		if _, err := w.Tag(ctx, id, []string{"web"}); api.KindOf(err) != api.KindNotFound {
			t.Errorf("tagged what is no template: %v", err)
		}
	}
	// Nobody else lost anything.
	w.is(t, "bob", theirs.ID, "web", "web:v1")
	w.is(t, "", operators.ID, "web:shared", "web:v1")

	var many []string
	for i := range api.MaxTemplateNames {
		many = append(many, fmt.Sprintf("web:%d", i))
	}
	if _, err := w.Tag(ctx, theirs.ID, many); api.KindOf(err) != api.KindExhausted {
		t.Errorf("too many names: %v", err)
	}
	if _, err := w.Tag(ctx, theirs.ID, many[:api.MaxTemplateNames-2]); err != nil {
		t.Error(err)
	}
}

// TestTagsInUse: the files of what lost its last name stay as long as a sandbox starts from it.
func TestTagsInUse(t *testing.T) {
	w := open(t, t.TempDir())
	old := w.named(t, "", "web:v1")
	_, dir, done, err := w.Use(t.Context(), old.ID)
	if err != nil {
		t.Fatal(err)
	}
	w.named(t, "", "web:v1")
	if _, err := os.Stat(dir); err != nil {
		t.Errorf("removed below its user: %v", err)
	}
	done()
	w.removed(t, old.ID, "replaced")
}

// TestTagsRace: saves and changes of tags at the same time leave each name to one complete snapshot.
func TestTagsRace(t *testing.T) {
	w := open(t, t.TempDir())
	base := w.named(t, "", "web", "web:base")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			own := fmt.Sprintf("web:%d", i)
			r, err := w.Write(context.Background(), row(func(r *api.Snapshot) { r.SetNames([]string{"web", "web:latest", own}) }), 0, image)
			if err != nil {
				t.Error(err)
				return
			}
			for _, id := range []api.SnapshotID{base.ID, r.ID} {
				if _, err := w.Tag(context.Background(), id, []string{"web:stable"}); err != nil {
					t.Error(err)
				}
			}
			if _, err := w.Untag(context.Background(), r.ID, own); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	rows, err := w.Snapshots(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	owners := map[string]int{}
	for _, r := range rows {
		if r.Name == "" || r.State != api.SnapshotReady {
			t.Errorf("left: %+v", r)
		}
		for _, n := range r.Names() {
			owners[n]++
		}
		if _, _, done, err := w.Use(t.Context(), r.ID); err != nil {
			t.Error(err)
		} else {
			done()
		}
	}
	for _, n := range []string{"web", "web:latest", "web:stable", "web:base"} {
		if owners[n] != 1 {
			t.Errorf("%s belongs to %d snapshots", n, owners[n])
		}
		delete(owners, n)
	}
	if len(owners) > 0 {
		t.Errorf("also: %v", owners)
	}
	if here, err := w.List(); err != nil || len(here) != len(rows) {
		t.Errorf("on disk: %v, %v; want %d", here, err, len(rows))
	}
}

// failing are rows whose names cannot be changed.
type failing struct{ snapshot.Rows }

func (failing) ChangeTemplates(context.Context, string, func([]api.Snapshot) ([]api.Snapshot, error)) error {
	return api.Errorf(api.KindExhausted, "the disk of the database is full")
}

// TestTagsNotStored: a template whose names cannot be stored is none, and the one before it stays.
func TestTagsNotStored(t *testing.T) {
	w := open(t, t.TempDir())
	old := w.named(t, "", "web", "web:v1")
	s, err := snapshot.Open(snapshot.Config{Dir: w.dir, Layers: w.layers, Rows: failing{w.db}, Owner: w.owner})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	fresh := row(func(r *api.Snapshot) { r.SetNames([]string{"web"}) })
	if _, err := s.Write(t.Context(), fresh, 0, image); api.KindOf(err) != api.KindExhausted {
		t.Errorf("saved: %v", err)
	}
	if _, err := s.Tag(t.Context(), old.ID, []string{"web:v2"}); api.KindOf(err) != api.KindExhausted {
		t.Errorf("tagged: %v", err)
	}
	w.is(t, "", old.ID, "web", "web:v1")
	w.is(t, "", "", "web:v2")
	if got := w.state(t, fresh.ID); got.State != api.SnapshotBroken {
		t.Errorf("row %+v", got)
	}
	if _, err := os.Stat(filepath.Join(w.dir, string(fresh.ID))); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its files: %v", err)
	}
}

// TestTagsOfManifests: if the rows are lost, the newest snapshot keeps a name that several manifests
// have.
func TestTagsOfManifests(t *testing.T) {
	dir := t.TempDir()
	w := open(t, dir)
	old := w.named(t, "", "web", "web:v1")
	fresh := w.named(t, "", "web")
	lone := w.named(t, "", "web:v2", "web:v3")
	w.db.Close()
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(filepath.Join(dir, "db"+suffix)); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	w = open(t, dir)
	if err := storetest.EndOthers(t.Context(), w.db, w.owner); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Recover(t.Context(), func(api.OwnerID) bool { return true }); err != nil {
		t.Fatal(err)
	}
	w.is(t, "", fresh.ID, "web")
	w.is(t, "", old.ID, "web:v1")
	w.is(t, "", lone.ID, "web:v2", "web:v3")
	if got := w.state(t, old.ID); !slices.Equal(got.Names(), []string{"web:v1"}) {
		t.Errorf("names: %v", got.Names())
	}
}
