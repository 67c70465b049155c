package daemon

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/platform/embedded"
	testtools "hortus.dev/test/tools"
)

// besideDir gives the path of a hortus executable, with a file hortus-runsc beside it.
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

// TestRunscBesideIsUsed: a daemon without gVisor in it uses the one beside its
// executable, and says why when it does not.
func TestRunscBesideIsUsed(t *testing.T) {
	if len(embedded.Runsc()) > 0 {
		t.Skip("this build has gVisor in it")
	}
	executable, runsc := besideDir(t)
	source, err := os.Open(filepath.Join(testtools.Dir(t), testtools.Runsc))
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	target, err := os.OpenFile(runsc, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	if _, err := io.Copy(target, source); err != nil {
		t.Fatal(err)
	}
	reasons := func(executable string) (text string) {
		t.Helper()
		s, err := Open(t.Context(), Config{DataDir: shortDir(t), Idle: -1, Pool: -1, Executable: executable})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close(t.Context())
		for _, r := range s.sandboxes.Reports(t.Context()) {
			if r.Backend != "gvisor" {
				continue
			}
			for _, a := range r.Abilities {
				text += a.Reason + "\n"
			}
		}
		if s.runsc != "" {
			text += "has a program"
		}
		return text
	}
	if text := reasons(executable); !strings.Contains(text, "has a program") || strings.Contains(text, "no gVisor in it") || strings.Contains(text, "not used") {
		t.Errorf("it is not used: %s", text)
	}
	if text := reasons(""); !strings.Contains(text, "no gVisor in it") {
		t.Errorf("control: without a program: %s", text)
	}
	if err := os.Chmod(runsc, 0o757); err != nil {
		t.Fatal(err)
	}
	if text := reasons(executable); strings.Contains(text, "has a program") || !strings.Contains(text, "others can write to "+runsc) {
		t.Errorf("a program that others can write to: %s", text)
	}
	replace(t, runsc, func() error { return os.WriteFile(runsc, []byte("#!/bin/sh\n"), 0o755) })
	if text := reasons(executable); strings.Contains(text, "has a program") || !strings.Contains(text, "is no program built of") {
		t.Errorf("something else: %s", text)
	}
}

// TestExecutableIsSet: the daemon's settings name the running program.
func TestExecutableIsSet(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if got := (setup{}).config(slog.New(slog.DiscardHandler), nil).Executable; got != self {
		t.Errorf("%q, want %q", got, self)
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
		if err := static(f); (err == nil) != (want == "") || err != nil && (api.KindOf(err) != want || api.HintOf(err) == "") {
			t.Errorf("%s: %v", path, err)
		}
	}
}
