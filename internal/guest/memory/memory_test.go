//go:build linux

package memory

import (
	"testing"
	"time"

	"hortus.dev/internal/guest/birth"
	"hortus.dev/internal/guest/process"
)

// TestKernelMemoryGrace releases memory slowly, as on a busy host, before use grows again.
// No other group is killed while memory is being released.
func TestKernelMemoryGrace(t *testing.T) {
	const limit = 256 << 20
	var used int64
	cfg := &birth.Config{Memory: limit}
	processes, err := process.NewManager(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	w := &kernelMemory{w: New(cfg, processes), used: func() int64 { return used }}
	for _, step := range []struct {
		used  int64
		kills bool
		why   string
	}{
		{100 << 20, false, "there is room"},
		{300 << 20, true, "the limit is passed"},
		{300 << 20, false, "what was killed is being taken apart"},
		{303 << 20, false, "a count is never exact"},
		{280 << 20, false, "it falls"},
		{281 << 20, false, "it falls slowly"},
		{295 << 20, true, "somebody else takes what came back"},
		{255 << 20, false, "the limit is kept, by little"},
		{257 << 20, false, "what is left is on its way"},
		{200 << 20, false, "there is room again"},
		{290 << 20, true, "the limit is passed once more"},
	} {
		before := w.killed
		used = step.used
		w.check()
		if killed := w.killed != before && !w.killed.IsZero(); killed != step.kills {
			t.Errorf("at %d MB somebody was killed: %v; %s", step.used>>20, killed, step.why)
		}
	}
}

// TestKernelIsFaster: a process that the kernel has killed counts as one that was killed here, once.
func TestKernelIsFaster(t *testing.T) {
	var kills int64
	w := &kernelMemory{w: &Watcher{limit: 256 << 20}, used: func() int64 { return 300 << 20 }, kills: func() (int64, bool) { return kills, true }}
	kills = 1
	w.check() // a kill of its own would need the processes of the watcher, which has none
	if w.killed.IsZero() || w.seen != 1 {
		t.Errorf("killed at %v, %d kills of the kernel were seen", w.killed, w.seen)
	}
	if w.kernelKilled() {
		t.Error("one kill of the kernel counts twice")
	}
	if kills++; !w.kernelKilled() {
		t.Error("the next kill of the kernel does not count")
	}
}

// TestInterval: the less memory is free, the sooner is the next check.
func TestInterval(t *testing.T) {
	const limit = 1 << 30
	for _, c := range []struct {
		free int64
		want time.Duration
	}{
		{limit / 2, checkInterval},
		{limit / 4, checkInterval / 2},
		{limit / 100, shortInterval},
		{0, shortInterval},
		{-limit, shortInterval},
	} {
		if got := interval(c.free, limit); got != c.want {
			t.Errorf("with %d MB of %d free: %v, want %v", c.free>>20, limit>>20, got, c.want)
		}
	}
}
