package daemon

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/internal/storage/layer"
)

// TestWorkspacesAreRecovered: a workspace that its daemon did not give back is there
// for the next one, and a row without a directory says so.
func TestWorkspacesAreRecovered(t *testing.T) {
	dir := t.TempDir()
	open := func() *System {
		s, err := Open(t.Context(), Config{DataDir: dir, Pool: -1})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	first := open()
	layers, err := layer.Open(first.dir.Layers())
	if err != nil {
		t.Fatal(err)
	}
	d := layer.Digest("sha256-" + strings.Repeat("a", 64))
	_, err = layers.Put(t.Context(), d, func(_ context.Context, dir string) (layer.Tree, error) {
		return layer.Tree{Root: filepath.Join(dir, "root")}, os.Mkdir(filepath.Join(dir, "root"), 0o755)
	})
	if err != nil {
		t.Fatal(err)
	}
	var ids [2]api.WorkspaceID
	for i := range ids {
		if ids[i], err = first.workspaces.Create(t.Context(), "", []layer.Digest{d}); err != nil {
			t.Fatal(err)
		}
	}
	held, err := first.workspaces.Lease(t.Context(), ids[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Close(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	held.Dir().Close() // as the kernel does when a daemon is killed
	if err := os.RemoveAll(filepath.Join(first.workspaces.Dir(), string(ids[1]))); err != nil {
		t.Fatal(err)
	}

	second := open()
	defer second.Close(context.WithoutCancel(t.Context()))
	for i, want := range []api.WorkspaceState{api.WorkspaceIdle, api.WorkspaceRemoved} {
		if w, err := second.db.Workspace(t.Context(), ids[i]); err != nil || w.State != want {
			t.Errorf("%+v, %v; want %s", w, err, want)
		}
	}
	l, err := second.workspaces.Lease(t.Context(), ids[0])
	if err != nil {
		t.Fatal(err)
	}
	l.Release()
	// What it lies on is not collected while it is there.
	zero := int64(0)
	out, err := status{second}.Collect(t.Context(), admin.CollectRequest{OlderThanMS: &zero, DryRun: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, it := range out.Items {
		if it.Name == string(d) {
			t.Errorf("it would be collected: %+v", it)
		}
	}
}
