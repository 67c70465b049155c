package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/internal/daemon"
	"hortus.dev/internal/platform/embedded"
	"hortus.dev/test/tools"
	"hortus.dev/test/world"
)

// TestRunscBesideIsUsed: a daemon without gVisor in it uses the one beside its
// executable, and says why when it does not.
func TestRunscBesideIsUsed(t *testing.T) {
	t.Parallel()
	if embedded.Runsc() != nil {
		t.Skip("this build has gVisor in it")
	}
	dir := filepath.Join(t.TempDir(), "bin")
	executable, runsc := filepath.Join(dir, "hortus"), filepath.Join(dir, tools.Runsc)
	place := func(program []byte, mode os.FileMode) {
		t.Helper()
		err := os.MkdirAll(dir, 0o755)
		if err == nil {
			err = os.WriteFile(runsc, program, 0o755)
		}
		if err == nil {
			err = os.Chmod(runsc, mode)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	program := world.Must(os.ReadFile(filepath.Join(tools.Dir(t), tools.Runsc)))(t)
	place(program, 0o755)
	reasons := func(executable string) (text string) {
		t.Helper()
		w := world.Open(t, world.Config{Config: daemon.Config{Executable: executable}})
		defer w.Stop()
		for _, r := range w.Sandboxes.Backends.Reports(t.Context()) {
			if r.Backend != "gvisor" {
				continue
			}
			for _, a := range r.Abilities {
				text += a.Reason + "\n"
			}
		}
		if w.Runsc != "" {
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
	place(program, 0o757)
	if text := reasons(executable); strings.Contains(text, "has a program") || !strings.Contains(text, "others can write to "+runsc) {
		t.Errorf("a program that others can write to: %s", text)
	}
	place([]byte("#!/bin/sh\n"), 0o755)
	if text := reasons(executable); strings.Contains(text, "has a program") || !strings.Contains(text, "was not built from") {
		t.Errorf("something else: %s", text)
	}
}
