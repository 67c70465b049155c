package binaries

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"hortus.dev/api"
	testtools "hortus.dev/test/tools"
)

// besideDir returns the path of a hortus executable, with a file hortus-runsc beside it.
func besideDir(t *testing.T) (executable, runsc string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "bin")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	runsc = filepath.Join(dir, besideName)
	if err := os.WriteFile(runsc, []byte("program"), 0o755); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "hortus"), runsc
}

// TestRunscBesideUntrusted: a program that others could replace is not used.
func TestRunscBesideUntrusted(t *testing.T) {
	chmod := func(mode os.FileMode, of func(runsc string) string) func(t *testing.T, runsc string) {
		return func(t *testing.T, runsc string) {
			if err := os.Chmod(of(runsc), mode); err != nil {
				t.Fatal(err)
			}
		}
	}
	file := func(p string) string { return p }
	parent := func(p string) string { return filepath.Dir(filepath.Dir(p)) }
	for name, attack := range map[string]struct {
		prepare func(t *testing.T, runsc string)
		says    string // empty: used
	}{
		"control":                  {func(*testing.T, string) {}, ""},
		"file of the group":        {chmod(0o775, file), "others can write to"},
		"file of all":              {chmod(0o757, file), "others can write to"},
		"sticky bit of a file":     {chmod(0o757|os.ModeSticky, file), "others can write to"},
		"directory of all":         {chmod(0o777, filepath.Dir), "others can write to"},
		"sticky directory":         {chmod(0o777|os.ModeSticky, filepath.Dir), ""},
		"directory above it":       {chmod(0o777, parent), "others can write to"},
		"symbolic link":            {func(t *testing.T, p string) { replace(t, p, func() error { return os.Symlink("/bin/true", p) }) }, "not a regular file"},
		"pipe":                     {func(t *testing.T, p string) { replace(t, p, func() error { return syscall.Mkfifo(p, 0o600) }) }, "not a regular file"},
		"file of another user":     {func(t *testing.T, p string) { chown(t, p) }, "owned by another user"},
		"directory of another one": {func(t *testing.T, p string) { chown(t, filepath.Dir(p)) }, "owned by another user"},
	} {
		t.Run(name, func(t *testing.T) {
			executable, runsc := besideDir(t)
			attack.prepare(t, runsc)
			path, err := runscBeside(executable)
			if attack.says == "" {
				if path != runsc || err != nil {
					t.Errorf("%q, %v", path, err)
				}
				return
			}
			if path != "" || api.KindOf(err) != api.KindUnsupported || !strings.Contains(err.Error(), attack.says) || api.HintOf(err) == "" {
				t.Errorf("%q, %v", path, err)
			}
		})
	}
	if path, err := runscBeside(filepath.Join(t.TempDir(), "hortus")); path != "" || err != nil {
		t.Errorf("without a file: %q, %v", path, err)
	}
}

func replace(t *testing.T, path string, make func() error) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := make(); err != nil {
		t.Fatal(err)
	}
}

func chown(t *testing.T, path string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file away")
	}
	if err := os.Chown(path, 4321, -1); err != nil {
		t.Fatal(err)
	}
}

// TestStaticGuest: a guest that needs a loader is refused with what to do.
func TestStaticGuest(t *testing.T) {
	for path, want := range map[string]api.Kind{"/bin/sh": api.KindUnsupported, filepath.Join(testtools.Dir(t), "guest", "hortus-guest"): ""} {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := Static(f); (err == nil) != (want == "") || err != nil && (api.KindOf(err) != want || api.HintOf(err) == "") {
			t.Errorf("%s: %v", path, err)
		}
	}
}
