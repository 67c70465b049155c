package binaries

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/backend/gvisor"
	"hortus.dev/internal/platform/embedded"
	"hortus.dev/test/tools"
)

func TestRunscFileRefused(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable() // a Go program, without gVisor
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(dir, "missing"), dir, text, pipe, self} {
		f, _, err := openRunsc(path)
		if f != nil || api.KindOf(err) != api.KindInvalid || !strings.Contains(err.Error(), "HORTUS_RUNSC") || api.HintOf(err) == "" {
			t.Errorf("%s: %v, %v", path, f, err)
		}
	}
}

func TestRunscNone(t *testing.T) {
	if embedded.Runsc() != nil {
		t.Skip("this build has gVisor in it")
	}
	if f, _, err := openRunsc(""); f != nil || api.KindOf(err) != api.KindUnsupported || api.HintOf(err) == "" {
		t.Errorf("%v, %v", f, err)
	}
}

// builtRunsc returns the runsc of HORTUS_RUNSC, or one that is built for all tests; "" where this
// program has it.
func builtRunsc(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("HORTUS_RUNSC"); path != "" || embedded.Runsc() != nil {
		return path
	}
	return filepath.Join(tools.Dir(t), gvisor.RunscName)
}

// What is given is the built one, with its version, and nobody can write to it.
func TestRunsc(t *testing.T) {
	path := builtRunsc(t)
	f, v, err := openRunsc(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte("x"), 0); err == nil {
		t.Error("what is sealed was written to")
	}
	cmd := exec.Command("/proc/self/fd/3", "--version")
	cmd.ExtraFiles = []*os.File{f}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "runsc version "+v+"\n") {
		t.Errorf("%s, %v; its build says %s", out, err, v)
	}
}
