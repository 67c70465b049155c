package daemon

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
)

// TestRemove removes a data directory that a daemon made, and what is not ours
// stays.
func TestRemove(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	c := connect(t, dir)
	if _, err := c.Tasks.List(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	ours, foreign, err := Inspect(dir)
	if err != nil || len(foreign) > 0 || !slices.Contains(ours, "hortus.db") || !slices.Contains(ours, "lock") {
		t.Fatalf("%q, %q, %v", ours, foreign, err)
	}
	// Not under a daemon that lives.
	short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := Remove(short, dir); api.KindOf(err) != api.KindConflict {
		t.Errorf("under a living daemon: %v", err)
	}
	if after, _, err := Inspect(dir); err != nil || !slices.Equal(after, ours) {
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
	if err := Remove(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 1 || list[0].Name() != "mine" {
		t.Errorf("left %v, %v", list, err)
	}
	if _, _, err := Inspect(dir); api.KindOf(err) != api.KindDenied {
		t.Errorf("what is left is no data directory: %v", err)
	}
	if err := os.Remove(filepath.Join(dir, "mine")); err != nil {
		t.Fatal(err)
	}
	if err := Remove(t.Context(), dir); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("an empty directory is left")
	}
	if err := os.Mkdir(dir, 0o700); err != nil { // for the cleanup of connect
		t.Fatal(err)
	}
}

func TestInspectRefuses(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"a home":           {"notes": "x"},
		"a lock alone":     {"lock": "", "notes": "x"},
		"another database": {"lock": "", "hortus.db": "not a database at all"},
		"no lock":          {"hortus.db": "SQLite format 3\x00"},
	} {
		dir := t.TempDir()
		for f, text := range files {
			if err := os.WriteFile(filepath.Join(dir, f), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, _, err := Inspect(dir); api.KindOf(err) != api.KindDenied || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %v", name, err)
		}
		if err := Remove(t.Context(), dir); api.KindOf(err) != api.KindDenied {
			t.Errorf("%s: %v", name, err)
		}
		if list, _ := os.ReadDir(dir); len(list) != len(files) {
			t.Errorf("%s: something was removed", name)
		}
	}
	if _, _, err := Inspect("/proc/version"); api.KindOf(err) != api.KindDenied {
		t.Errorf("a file: %v", err)
	}
	if os.Geteuid() != 0 {
		if _, _, err := Inspect("/etc"); api.KindOf(err) != api.KindDenied {
			t.Errorf("somebody else's: %v", err)
		}
	}
	if ours, foreign, err := Inspect("/no/such/place"); len(ours)+len(foreign) > 0 || err != nil {
		t.Errorf("nothing: %v %v %v", ours, foreign, err)
	}
	for name, want := range map[string]bool{"hortus.db.bak-v1": true, "hortus.db.bak-v12.3": true, "hortus.db.bak-vx": false, "hortus.dbx": false, "run": true, "Run": false} {
		if isOurs(name) != want {
			t.Errorf("isOurs(%q) = %v", name, !want)
		}
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
	if _, foreign, err := Inspect(dir); err != nil || len(foreign) > 0 {
		t.Errorf("the daemon made %q, which is not in entries; %v", foreign, err)
	}
}
