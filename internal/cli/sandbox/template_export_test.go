package sandbox

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestRenameNew(t *testing.T) {
	dir := t.TempDir()
	old, name := filepath.Join(dir, "old"), filepath.Join(dir, "new")
	if err := os.WriteFile(old, []byte("archive"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := renameNew(old, name); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(name); err != nil || string(got) != "archive" {
		t.Errorf("%q, %v", got, err)
	}
	if err := errors.Join(os.Remove(old), os.WriteFile(name, []byte("another's"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(old, []byte("archive"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := renameNew(old, name); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a file that exists: %v", err)
	}
	if got, _ := os.ReadFile(name); string(got) != "another's" {
		t.Errorf("it was replaced by %q", got)
	}
}
