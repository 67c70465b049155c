package workspace

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/storage/layer"
)

// TestStored: what workspaces take is measured when it may have changed, a seal and a fork hide nothing, and what was
// removed is not there.
func TestStored(t *testing.T) {
	f := newFixture(t, func(root string) {})
	ctx := t.Context()
	made, err := f.Make(ctx, New{Account: "alice", Layers: []layer.Digest{f.base}})
	if err != nil {
		t.Fatal(err)
	}
	id := made.ID
	ids := []api.WorkspaceID{id, api.NewWorkspaceID()} // one of them is not there
	const mib = 1 << 20
	write := func(id api.WorkspaceID, name string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(f.Dir(), string(id), Upper, name), bytes.Repeat([]byte("x"), mib), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	is := func(what string, mibs int64) {
		t.Helper()
		got, err := f.Stored(ctx, ids)
		if err != nil || got < mibs*mib || got > mibs*mib+mib/2 {
			t.Errorf("%s: %d bytes, want about %d MiB: %v", what, got, mibs, err)
		}
	}
	is("nothing", 0)
	lease, err := f.Lease(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	write(id, "a")
	lease.Stores(3 * mib)
	is("as its sandbox measured it", 3)
	lease.Release()
	is("after its sandbox", 1)
	if _, err := f.Seal(ctx, id); err != nil {
		t.Fatal(err)
	}
	is("sealed", 1)
	lease, err = f.Lease(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	write(id, "b")
	lease.Release()
	is("written to again", 2)
	fork, err := f.Fork(ctx, id, New{})
	if err != nil {
		t.Fatal(err)
	}
	ids = append(ids, fork.ID)
	is("forked, with one layer below both", 3)
	if err := f.Remove(ctx, id, "test"); err != nil {
		t.Fatal(err)
	}
	is("the fork alone", 2)
}
