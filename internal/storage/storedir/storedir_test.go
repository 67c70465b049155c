package storedir

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"hortus.dev/api"
)

// TestOpen removes leftovers, but not what another process still makes or what is finished.
func TestOpen(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "store")
	if _, err := Open("things", dir, os.RemoveAll, "new-", "gone-"); err != nil {
		t.Fatal(err)
	}
	making, err := MakeLocked(dir, "new-")
	if err != nil {
		t.Fatal(err)
	}
	defer making.Close()
	outside := filepath.Join(parent, "outside")
	id := api.NewWorkspaceID()
	for _, path := range []string{outside, filepath.Join(dir, "new-left"), filepath.Join(dir, "gone-1"), filepath.Join(dir, string(id)), filepath.Join(dir, "other")} {
		if err := os.MkdirAll(filepath.Join(path, "sub"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(outside, filepath.Join(dir, "new-link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Open("things", dir, os.RemoveAll, "new-", "gone-"); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	want := []string{filepath.Base(making.Name()), "other", string(id)}
	slices.Sort(want)
	if !slices.Equal(names, want) {
		t.Errorf("the directory has %q, want %q", names, want)
	}
	if _, err := os.Stat(filepath.Join(outside, "sub")); err != nil {
		t.Errorf("the target of a link: %v", err)
	}
	if st, err := os.Stat(dir); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("the directory's mode: %v, %v", st.Mode(), err)
	}
	if ids, err := List[api.WorkspaceID]("things", dir); err != nil || !slices.Equal(ids, []api.WorkspaceID{id}) {
		t.Errorf("listed %q, %v", ids, err)
	}
	making.Close()
	if _, err := Open("things", dir, os.RemoveAll, "new-"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(making.Name()); !os.IsNotExist(err) {
		t.Errorf("a leftover whose maker ended: %v", err)
	}
}
