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
)

// TestRemove removes a data directory that a daemon made, and what is not ours
// stays.
func TestRemove(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	c := connect(t, dir)
	if _, err := c.Tasks.List(t.Context(), 1); err != nil {
		t.Fatal(err)
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
	if err := c.Stop(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "mine"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "layers/x/closed/y"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "layers/x/closed"), 0o500); err != nil {
		t.Fatal(err)
	}
	if err := datadir.Remove(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 1 || list[0].Name() != "mine" {
		t.Errorf("left %v, %v", list, err)
	}
	if _, _, err := datadir.Inspect(dir); api.KindOf(err) != api.KindDenied {
		t.Errorf("what is left is no data directory: %v", err)
	}
	if err := os.Remove(filepath.Join(dir, "mine")); err != nil {
		t.Fatal(err)
	}
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

// TestLayoutIsKnown: everything that a daemon that worked has made is known to
// uninstall.
func TestLayoutIsKnown(t *testing.T) {
	dir := t.TempDir()
	c := connect(t, dir)
	isolated(t, c)
	s, err := c.Sandboxes.Create(t.Context(), api.CreateSandbox{})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	if _, err := c.Doctor(t.Context()); err != nil { // keeps an inventory
		t.Fatal(err)
	}
	if _, foreign, err := datadir.Inspect(dir); err != nil || len(foreign) > 0 {
		t.Errorf("the daemon made %q, which is not in entries; %v", foreign, err)
	}
}
