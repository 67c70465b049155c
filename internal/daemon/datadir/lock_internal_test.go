package datadir

import (
	"errors"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestRelease: a released lock is free, though a child that is about to execute its program still has the file.
func TestRelease(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	l, err := AcquireLock(path)
	if err != nil {
		t.Fatal(err)
	}
	child, err := unix.Dup(int(l.f.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(child)
	if _, err := AcquireLock(path); !errors.Is(err, ErrOwned) || LockIsFree(path) {
		t.Errorf("taken twice: %v", err)
	}
	l.Release()
	if !LockIsFree(path) {
		t.Error("it is not free")
	}
}
