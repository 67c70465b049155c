package workspace

import (
	"testing"

	"golang.org/x/sys/unix"
)

// A lease that is released is free at once, also while a process that is being forked
// elsewhere holds a copy of its descriptor: the copy made here is what a child has
// between fork and execve.
func TestReleaseWhileForking(t *testing.T) {
	f := newFixture(t, nil)
	id, _ := f.create(t)
	l, err := f.Lease(t.Context(), id)
	must(t, err)
	copied, err := unix.Dup(int(l.Dir().Fd()))
	must(t, err)
	defer unix.Close(copied)
	l.Release()
	again, err := f.Lease(t.Context(), id)
	if err != nil {
		t.Fatalf("a released lease cannot be taken: %v", err)
	}
	// The control: closing alone leaves the lock with the copy.
	second, err := unix.Dup(int(again.Dir().Fd()))
	must(t, err)
	again.dir.Close()
	if _, err := f.Lease(t.Context(), id); err == nil {
		t.Error("a lock was given up by closing one of two descriptors")
	}
	unix.Close(second)
}
