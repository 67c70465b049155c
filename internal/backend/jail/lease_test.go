package jail

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

func TestLeases(t *testing.T) {
	dir := t.TempDir()
	a, b := newLeases(dir), newLeases(dir) // two daemons
	defer a.close()
	defer b.close()
	one, err := a.get()
	if err != nil {
		t.Fatal(err)
	}
	two, err := a.get()
	if err != nil {
		t.Fatal(err)
	}
	three, err := b.get()
	if err != nil {
		t.Fatal(err)
	}
	if one.base == two.base || two.base == three.base || one.base == three.base {
		t.Errorf("ranges are shared: %#x %#x %#x", one.base, two.base, three.base)
	}
	a.put(one)
	again, err := a.get()
	if err != nil || again.base != one.base {
		t.Errorf("a range that was given back is not used first: %v", err)
	}
}

// TestLeasesOfABurst: what many sandboxes at once needed is given back, but for a
// few, and others can have it.
func TestLeasesOfABurst(t *testing.T) {
	dir := t.TempDir()
	a := newLeases(dir)
	defer a.close()
	var burst []*lease
	for range 3 * maxFree {
		le, err := a.get()
		if err != nil {
			t.Fatal(err)
		}
		burst = append(burst, le)
	}
	for _, le := range burst {
		a.put(le)
	}
	if len(a.free) != maxFree || len(a.held) != maxFree {
		t.Errorf("%d ranges are free and %d held, want %d of both", len(a.free), len(a.held), maxFree)
	}
	b := newLeases(dir)
	defer b.close()
	mine := map[int]bool{}
	for n := range a.held {
		mine[n] = true
	}
	for range 2 * maxFree {
		le, err := b.get()
		if err != nil {
			t.Fatal(err)
		}
		if mine[le.n] || le.n >= 3*maxFree {
			t.Errorf("range %d: held by another, or not one that was given back", le.n)
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
	id, err := processID(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	a := newLeases(dir)
	le, err := a.get()
	if err != nil {
		t.Fatal(err)
	}
	if err := le.record(id); err != nil {
		t.Fatal(err)
	}
	a.close()
	b := newLeases(dir)
	defer b.close()
	other, err := b.get()
	if err != nil {
		t.Fatal(err)
	}
	if other.base == le.base {
		t.Error("the range of a live sandbox was leased again")
	}
	cmd.Process.Kill()
	cmd.Wait()
	c := newLeases(dir)
	defer c.close()
	freed, err := c.get()
	if err != nil {
		t.Fatal(err)
	}
	if freed.base != le.base {
		t.Error("the range of a dead sandbox is lost")
	}
}

func TestSubIDs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "subuid")
	if err := os.WriteFile(path, []byte("a:100000:65536\nbad\nb:1610612736:65536\nc:x:1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	l := newLeases(t.TempDir())
	defer l.close()
	l.taken = subIDs(path)
	if len(l.taken) != 2 || !l.overlaps(0) || l.overlaps(1) {
		t.Errorf("taken %v", l.taken)
	}
}

func FuzzDecodeProcID(f *testing.F) {
	f.Add([]byte("12 34\n"))
	f.Add([]byte("12"))
	f.Add([]byte("-1 5\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, ok := decodeProcID(b)
		if ok && p.pid <= 1 {
			t.Errorf("accepted %+v", p)
		}
	})
}

func FuzzReported(f *testing.F) {
	f.Add([]byte(`{"ready":true}`))
	f.Add([]byte(`{"ready":false,"stage":"x","error":"y","errno":1}`))
	f.Add([]byte("\x00{"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := reported(b); err != nil && len(err.Error()) > 1000 {
			t.Errorf("a report makes a message of %d bytes", len(err.Error()))
		}
	})
}
