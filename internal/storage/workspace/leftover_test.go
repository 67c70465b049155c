package workspace

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/storage/layer"
)

// TestLeftovers: a store opens, and is used, while leftovers are removed; nobody finds them. Close
// ends their removal and waits for it, and the next store continues it.
func TestLeftovers(t *testing.T) {
	f := newFixture(t, nil)
	stays, _ := f.create(t)
	left, _ := f.create(t)
	removed, _ := f.create(t)
	rows, err := f.rows.Workspace(t.Context(), removed)
	must(t, err)
	rows.State = api.WorkspaceRemoved // a daemon was killed before its directory went
	must(t, f.rows.UpdateWorkspace(t.Context(), rows))
	half := []string{filepath.Join(f.Dir(), aside+"1"), filepath.Join(f.Dir(), gone+string(api.NewWorkspaceID()))}
	for _, dir := range half {
		must(t, os.MkdirAll(filepath.Join(dir, Upper, "deep"), 0o755))
	}
	begun := make(chan struct{}, 10)
	var running, most, ended atomic.Int64
	slow := func(ctx context.Context, dir string) error {
		most.Store(max(most.Load(), running.Add(1)))
		defer running.Add(-1)
		begun <- struct{}{}
		<-ctx.Done()
		ended.Add(1)
		return ctx.Err()
	}
	s, err := open(t.Context(), Config{Dir: f.Dir(), Layers: f.layers, Rows: f.rows, Owner: api.NewOwnerID()}, slow)
	must(t, err)
	<-begun // the removal of one of them lasts, and the store is open
	if n, err := s.Recover(t.Context(), func(api.OwnerID) bool { return true }); err != nil || n == 0 {
		t.Errorf("%d, %v", n, err)
	}
	must(t, s.RemoveLater(left, "left"))
	must(t, s.RemoveLater(left, "left")) // it is not there
	ids, err := s.List()
	if err != nil || !slices.Equal(ids, []api.WorkspaceID{stays}) {
		t.Errorf("%v are there, %v", ids, err)
	}
	for _, id := range []api.WorkspaceID{left, removed} {
		if _, err := s.Lease(t.Context(), id); api.KindOf(err) != api.KindNotFound {
			t.Errorf("%s is found: %v", id, err)
		}
	}
	if w, err := f.rows.Workspace(t.Context(), left); err != nil || w.State != api.WorkspaceRemoved || w.Reason != "left" || w.EndedAt.IsZero() {
		t.Errorf("%+v, %v", w, err)
	}
	if _, err := s.Create(t.Context(), "", []layer.Digest{f.base}); err != nil {
		t.Error(err)
	}
	s.Close()
	if running.Load() != 0 || ended.Load() != 1 || most.Load() != 1 {
		t.Errorf("%d removals run after Close, %d ended, %d ran at a time", running.Load(), ended.Load(), most.Load())
	}
	there := func() []string {
		names, err := filepath.Glob(filepath.Join(f.Dir(), "[ng]*e*-*"))
		must(t, err)
		return names
	}
	if n := len(there()); n != 4 {
		t.Errorf("%q are left", there())
	}
	f.open(t)
	f.work.Wait()
	if left := there(); len(left) > 0 {
		t.Errorf("%q are left", left)
	}
	f.Close()
	if ids, err := f.List(); err != nil || len(ids) != 2 {
		t.Errorf("%v are there, %v", ids, err)
	}
}
