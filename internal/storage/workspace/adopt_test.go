package workspace

import (
	"os"
	"path/filepath"
	"testing"

	"hortus.dev/api"
)

// A workspace goes from one task to another with its files; only its own task can give
// it away, and not while a sandbox has it.
func TestAdopt(t *testing.T) {
	f := newFixture(t, nil)
	id, _ := f.create(t)
	was, err := f.Get(id)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(f.path(id), Upper, "work"), []byte("kept"), 0o600))
	a, b := api.NewTaskID(), api.NewTaskID()
	must(t, f.Adopt(t.Context(), id, was.Task, a))
	if err := f.Adopt(t.Context(), id, was.Task, b); api.KindOf(err) != api.KindConflict {
		t.Errorf("the old task gave it away again: %v", err)
	}
	l, err := f.Lease(t.Context(), id)
	must(t, err)
	if err := f.Adopt(t.Context(), id, a, b); api.KindOf(err) != api.KindConflict {
		t.Errorf("while it is in use: %v", err)
	}
	l.Release()
	must(t, f.Adopt(t.Context(), id, a, b))
	now, err := f.Get(id)
	must(t, err)
	if now.Task != b || now.CreatedAt != was.CreatedAt || len(now.Layers) != len(was.Layers) {
		t.Errorf("%+v, was %+v", now, was)
	}
	if kept, err := os.ReadFile(filepath.Join(f.path(id), Upper, "work")); err != nil || string(kept) != "kept" {
		t.Errorf("%q, %v", kept, err)
	}
	must(t, f.Remove(t.Context(), id, "test"))
	if err := f.Adopt(t.Context(), id, b, a); api.KindOf(err) != api.KindNotFound {
		t.Errorf("after it was removed: %v", err)
	}
}
