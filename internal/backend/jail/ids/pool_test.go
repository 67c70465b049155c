package ids

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"hortus.dev/internal/platform/proc"
)

func TestLeases(t *testing.T) {
	dir := t.TempDir()
	a, b := NewPool(dir), NewPool(dir) // two daemons
	defer a.Close()
	defer b.Close()
	one, err := a.Get()
	if err != nil {
		t.Fatal(err)
	}
	two, err := a.Get()
	if err != nil {
		t.Fatal(err)
	}
	three, err := b.Get()
	if err != nil {
		t.Fatal(err)
	}
	if one.Base == two.Base || two.Base == three.Base || one.Base == three.Base {
		t.Errorf("ranges are shared: %#x %#x %#x", one.Base, two.Base, three.Base)
	}
	a.Put(one)
	again, err := a.Get()
	if err != nil || again.Base != one.Base {
		t.Errorf("a range that was given back is not used first: %v", err)
	}
}

// TestLeasesOfABurst: what many sandboxes at once needed is given back, but for a
// few, and others can have it.
func TestLeasesOfABurst(t *testing.T) {
	dir := t.TempDir()
	a := NewPool(dir)
	defer a.Close()
	var burst []*Range
	for range 3 * maxFree {
		le, err := a.Get()
		if err != nil {
			t.Fatal(err)
		}
		burst = append(burst, le)
	}
	for _, le := range burst {
		a.Put(le)
	}
	if len(a.free) != maxFree || len(a.held) != maxFree {
		t.Errorf("%d ranges are free and %d held, want %d of both", len(a.free), len(a.held), maxFree)
	}
	b := NewPool(dir)
	defer b.Close()
	mine := map[int]bool{}
	for n := range a.held {
		mine[n] = true
	}
	for range 2 * maxFree {
		le, err := b.Get()
		if err != nil {
			t.Fatal(err)
		}
		if mine[le.N] || le.N >= 3*maxFree {
			t.Errorf("range %d: held by another, or not one that was given back", le.N)
		}
	}
}

// A range stays taken while the process it was for lives, though its owner died.
func TestLeaseOutlivesOwner(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command("/usr/bin/sleep", "3600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	id, err := proc.Identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	a := NewPool(dir)
	le, err := a.Get()
	if err != nil {
		t.Fatal(err)
	}
	if err := le.Record(id); err != nil {
		t.Fatal(err)
	}
	a.Close()
	b := NewPool(dir)
	defer b.Close()
	other, err := b.Get()
	if err != nil {
		t.Fatal(err)
	}
	if other.Base == le.Base {
		t.Error("the range of a live sandbox was leased again")
	}
	cmd.Process.Kill()
	cmd.Wait()
	c := NewPool(dir)
	defer c.Close()
	freed, err := c.Get()
	if err != nil {
		t.Fatal(err)
	}
	if freed.Base != le.Base {
		t.Error("the range of a dead sandbox is lost")
	}
}

func TestSubIDs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "subuid")
	if err := os.WriteFile(path, []byte("a:100000:65536\nbad\nb:1610612736:65536\nc:x:1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	l := NewPool(t.TempDir())
	defer l.Close()
	l.taken = subIDs(path)
	if len(l.taken) != 2 || !l.overlaps(0) || l.overlaps(1) {
		t.Errorf("taken %v", l.taken)
	}
}
