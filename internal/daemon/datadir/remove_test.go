package datadir

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/api"
)

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
