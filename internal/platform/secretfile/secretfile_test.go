package secretfile

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
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
	if _, err := Open(filepath.Join(file, "none")); err == nil || errors.Is(err, ErrUnusable) {
		t.Errorf("below a file: %v", err)
	}
}

// TestUnusable refuses files whose secret others may know, without waiting for a pipe.
func TestUnusable(t *testing.T) {
	for name, create := range map[string]func(file string) error{
		"for others": func(f string) error {
			return errors.Join(os.WriteFile(f, make([]byte, Len), 0o600), os.Chmod(f, 0o640))
		},
		"short":     func(f string) error { return os.WriteFile(f, make([]byte, Len-1), 0o600) },
		"link":      func(f string) error { return os.Symlink("/dev/zero", f) },
		"pipe":      func(f string) error { return unix.Mkfifo(f, 0o600) },
		"directory": func(f string) error { return os.Mkdir(f, 0o700) },
	} {
		file := filepath.Join(t.TempDir(), "key")
		if err := create(file); err != nil {
			t.Fatal(err)
		}
		if secret, err := Open(file); !errors.Is(err, ErrUnusable) || secret != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
