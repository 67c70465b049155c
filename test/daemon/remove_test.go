package daemon

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/daemon/datadir"
	"hortus.dev/test/world"
)

// TestRemove removes a data directory of a daemon that worked. Everything in it is known, and what is not ours
// stays.
func TestRemove(t *testing.T) {
	t.Parallel()
	dir := world.NewDir(t)
	c := world.Connect(t, dir)
	d := world.Must(c.Doctor(t.Context()))(t) // keeps an inventory
	if d.Auto != "" {
		s := world.Must(c.Sandboxes.Create(t.Context(), api.CreateSandbox{}))(t)
		s.Close()
	}
	ours, foreign, err := datadir.Inspect(dir)
	if err != nil || len(foreign) > 0 || !slices.Contains(ours, "hortus.db") || !slices.Contains(ours, "lock") {
		t.Fatalf("%q, %q, %v", ours, foreign, err)
	}
	// Not under a daemon that lives.
	short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := datadir.Remove(short, dir); api.KindOf(err) != api.KindConflict {
		t.Errorf("under a living daemon: %v", err)
	}
	if after, _, err := datadir.Inspect(dir); err != nil || !slices.Equal(after, ours) {
		t.Errorf("a refused removal removed: %q, %v", after, err)
	}
	world.OK(t, c.Stop(t.Context(), true))
	world.OK(t, os.WriteFile(filepath.Join(dir, "mine"), nil, 0o600))
	world.OK(t, os.MkdirAll(filepath.Join(dir, "layers/x/closed/y"), 0o700))
	world.OK(t, os.Chmod(filepath.Join(dir, "layers/x/closed"), 0o500))
	world.OK(t, datadir.Remove(t.Context(), dir))
	if list, err := os.ReadDir(dir); err != nil || len(list) != 1 || list[0].Name() != "mine" {
		t.Errorf("left %v, %v", list, err)
	}
	if _, _, err := datadir.Inspect(dir); api.KindOf(err) != api.KindDenied {
		t.Errorf("what is left is no data directory: %v", err)
	}
	world.OK(t, os.Remove(filepath.Join(dir, "mine")))
	if err := datadir.Remove(t.Context(), dir); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("an empty directory is left")
	}
	if err := os.Mkdir(dir, 0o700); err != nil { // for the cleanup of connect
		t.Fatal(err)
	}
}
