package secretfile

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestOpen(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	first, err := Open(file)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Open(file)
	if err != nil || len(first) != Len || !bytes.Equal(first, again) {
		t.Errorf("%x, then %x, %v", first, again, err)
	}
	if other, err := Open(file + "2"); err != nil || bytes.Equal(first, other) {
		t.Errorf("two files have one secret: %v", err)
	}
	if _, err := Open(filepath.Join(file, "none")); err == nil || errors.As(err, new(*UnusableError)) {
		t.Errorf("below a file: %v", err)
	}
	if _, err := Read(file + "3"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if _, err := os.Lstat(file + "3"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Read makes a file: %v", err)
	}
}

// TestUnusable refuses files whose secret others may know, without waiting for a pipe.
func TestUnusable(t *testing.T) {
	for reason, create := range map[string]func(file string) error{
		"has mode 0640: other users than its owner have rights": func(f string) error {
			return errors.Join(os.WriteFile(f, make([]byte, Len), 0o600), os.Chmod(f, 0o640))
		},
		"has 31 bytes, not 32":                 func(f string) error { return os.WriteFile(f, make([]byte, Len-1), 0o600) },
		"is a symbolic link, not a plain file": func(f string) error { return os.Symlink("/dev/zero", f) },
		"is not a plain file":                  func(f string) error { return unix.Mkfifo(f, 0o600) },
		"is not a plain file ":                 func(f string) error { return os.Mkdir(f, 0o700) },
	} {
		file := filepath.Join(t.TempDir(), "key")
		if err := create(file); err != nil {
			t.Fatal(err)
		}
		secret, err := Open(file)
		var bad *UnusableError
		if !errors.As(err, &bad) || bad.Reason != strings.TrimSpace(reason) || secret != nil {
			t.Errorf("%s: %v", reason, err)
		}
		if bad != nil && bad.Repair != "" {
			if out, err := exec.Command("sh", "-c", bad.Repair).CombinedOutput(); err != nil {
				t.Errorf("%s: %v: %s", bad.Repair, err, out)
			}
			if _, err := Open(file); err != nil {
				t.Errorf("after %s: %v", bad.Repair, err)
			}
		}
	}
}
