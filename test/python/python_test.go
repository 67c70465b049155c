package python

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

func TestDirect(t *testing.T) {
	real, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed")
	}
	out, err := exec.Command(real, "-c", "import sys; print(sys.executable, end='')").Output()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "python3"), []byte("#!/bin/sh\nexec "+string(out)+" \"$@\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	Direct()
	if got, err := exec.LookPath("python3"); err != nil || got != string(out) {
		t.Errorf("%s, %v, want %s", got, err, out)
	}
	path := os.Getenv("PATH")
	if Direct(); os.Getenv("PATH") != path {
		t.Errorf("an interpreter was replaced: %s", os.Getenv("PATH"))
	}
}
