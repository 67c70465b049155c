package daemon

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/internal/platform/embedded"
	testtools "hortus.dev/test/tools"
)

// besideDir returns the path of a hortus executable, with a file hortus-runsc beside it.
func besideDir(t *testing.T) (executable, runsc string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "bin")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	runsc = filepath.Join(dir, "hortus-runsc")
	if err := os.WriteFile(runsc, []byte("program"), 0o755); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "hortus"), runsc
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

// TestRunscBesideIsUsed: a daemon without gVisor in it uses the one beside its
// executable, and says why when it does not.
func TestRunscBesideIsUsed(t *testing.T) {
	if embedded.Runsc() != nil {
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
		data := shortDir(t)
		withGuest(t, data)
		s, err := Open(t.Context(), Config{DataDir: data, Idle: -1, Pool: -1, Executable: executable})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close(t.Context())
		for _, r := range s.sandboxes.Backends.Reports(t.Context()) {
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
	if text := reasons(executable); !strings.Contains(text, "has a program") || strings.Contains(text, "does not include gVisor") || strings.Contains(text, "not used") {
		t.Errorf("it is not used: %s", text)
	}
	if text := reasons(""); !strings.Contains(text, "does not include gVisor") {
		t.Errorf("control: without a program: %s", text)
	}
	if err := os.Chmod(runsc, 0o757); err != nil {
		t.Fatal(err)
	}
	if text := reasons(executable); strings.Contains(text, "has a program") || !strings.Contains(text, "others can write to "+runsc) {
		t.Errorf("a program that others can write to: %s", text)
	}
	replace(t, runsc, func() error { return os.WriteFile(runsc, []byte("#!/bin/sh\n"), 0o755) })
	if text := reasons(executable); strings.Contains(text, "has a program") || !strings.Contains(text, "was not built from") {
		t.Errorf("something else: %s", text)
	}
}

// TestExecutableIsSet: the daemon's settings name the running program.
func TestExecutableIsSet(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	set, err := loadSettings(os.DevNull, nil)
	if err != nil || set.Executable != self {
		t.Errorf("%q, %v; want %q", set.Executable, err, self)
	}
}
