package binaries

import (
	"os"
	"path/filepath"
	"testing"

	"hortus.dev/internal/backend/gvisor"
	"hortus.dev/internal/backend/jail/keeper"
)

// What is unpacked is whole, is found again, is made anew when somebody changed it, and
// takes the place of what another build left.
func TestUnpackTools(t *testing.T) {
	path := builtRunsc(t)
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	dir := filepath.Join(t.TempDir(), "bin")
	for _, d := range []string{"gvisor-of-another-build", "gvisor-in-use", "new-cut-short"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	a, err := unpackRunsc(dir, self, path, map[string]bool{"gvisor-in-use": true})
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() && e.Name() != filepath.Base(a.Dir) && e.Name() != "gvisor-in-use" {
			t.Errorf("%s is still there", e.Name())
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "gvisor-in-use")); err != nil {
		t.Errorf("what sandboxes run on is gone: %v", err)
	}
	guest := filepath.Join(a.Dir, keeper.GuestDir, gvisor.GuestName)
	before, err := os.Stat(guest)
	if err != nil {
		t.Fatal(err)
	}
	b, err := unpackRunsc(dir, self, path, map[string]bool{"gvisor-in-use": true})
	if err != nil || b != a {
		t.Fatalf("%+v, then %+v, %v", a, b, err)
	}
	if again, err := os.Stat(guest); err != nil || !os.SameFile(before, again) {
		t.Errorf("it was unpacked again: %v", err)
	}
	if err := os.Chmod(guest, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := unpackRunsc(dir, self, path, map[string]bool{"gvisor-in-use": true}); err != nil {
		t.Fatal(err)
	}
	if fi, err := os.Stat(guest); err != nil || fi.Mode() != 0o555 {
		t.Errorf("a program that could be written to is %v, %v", fi, err)
	}
}
