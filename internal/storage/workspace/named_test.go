package workspace

import (
	"context"
	"slices"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/storage/layer"
)

// held reports whether a layer cannot be removed because somebody has a lease.
func (f *fixture) held(t *testing.T, d layer.Digest) bool {
	t.Helper()
	leased, err := f.layers.Leased(d)
	must(t, err)
	return leased
}

// TestNamed: a workspace that is made after the records were read keeps its layers until the
// names were used, and no longer.
func TestNamed(t *testing.T) {
	f := newFixture(t, nil)
	f.create(t)
	other, unused := f.layer(t, "b", nil), f.layer(t, "c", nil)
	read := func(inner func(named []layer.Digest)) {
		t.Helper()
		must(t, f.Named(func(named []layer.Digest) error { inner(named); return nil }))
	}
	var id api.WorkspaceID
	read(func(named []layer.Digest) {
		if !slices.Equal(named, []layer.Digest{f.base}) {
			t.Errorf("%v", named)
		}
		read(func([]layer.Digest) { // another reader that ends before the first
			var err error
			id, err = f.Create(t.Context(), "", []layer.Digest{other})
			must(t, err)
			_, err = f.Create(t.Context(), "", []layer.Digest{other})
			must(t, err)
		})
		if err := f.layers.Remove(other); api.KindOf(err) != api.KindConflict {
			t.Errorf("a layer that is not among the names is removed: %v", err)
		}
		must(t, f.layers.Remove(unused)) // the control
	})
	if f.held(t, other) {
		t.Error("the layer is still leased")
	}
	read(func(named []layer.Digest) {
		if !slices.Contains(named, other) {
			t.Errorf("%v", named)
		}
	})
	// A seal names a new layer.
	put(t, f.path(id)+"/"+Upper, map[string]string{"a": "1"})
	read(func(named []layer.Digest) {
		sealed, err := f.Seal(t.Context(), id)
		must(t, err)
		if slices.Contains(named, sealed.Layer) || !f.held(t, sealed.Layer) {
			t.Errorf("%s is not held", sealed.Layer)
		}
	})
	if _, err := f.Create(t.Context(), "", []layer.Digest{other, unused}); api.KindOf(err) != api.KindNotFound {
		t.Errorf("over a layer that is gone: %v", err)
	}
	if f.held(t, other) {
		t.Error("a workspace that was not made keeps a layer")
	}
}

// slowRows stores the rows of one task only when release is closed.
type slowRows struct {
	*memory
	task          api.TaskID
	begun, finish chan struct{}
}

func (r *slowRows) InsertWorkspace(ctx context.Context, w api.Workspace) error {
	if w.Task == r.task {
		close(r.begun)
		<-r.finish
	}
	return r.memory.InsertWorkspace(ctx, w)
}

// TestSlowRow: while the row of one workspace is stored, others are made and the layers are
// collected; those of the slow one stay.
func TestSlowRow(t *testing.T) {
	f := newFixture(t, nil)
	slow := &slowRows{memory: f.rows, task: "slow", begun: make(chan struct{}), finish: make(chan struct{})}
	f.cfg.Rows = slow
	top := f.layer(t, "b", nil)
	made := make(chan error)
	go func() {
		_, err := f.Create(context.Background(), slow.task, []layer.Digest{f.base, top})
		made <- err
	}()
	<-slow.begun
	_, err := f.Create(t.Context(), "fast", []layer.Digest{f.base})
	must(t, err)
	must(t, f.Named(func(named []layer.Digest) error {
		if slices.Contains(named, top) {
			t.Errorf("%v", named)
		}
		if err := f.layers.Remove(top); api.KindOf(err) != api.KindConflict {
			t.Errorf("a layer of a workspace that is being made: %v", err)
		}
		return nil
	}))
	close(slow.finish)
	must(t, <-made)
	if f.held(t, top) {
		t.Error("the layer is still leased")
	}
}
