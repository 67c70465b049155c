//go:build linux

package memory

import (
	"testing"
	"testing/fstest"
)

// TestGroup: what is used is what the kernel cannot free.
func TestGroup(t *testing.T) {
	for name, c := range map[string]struct {
		file, text string
		want       int64
	}{
		"version 2":      {"memory.stat", "anon 1000\nfile 700000\nkernel 900\nshmem 20\nsock 3\nslab_reclaimable 500\n", 1423},
		"version 1":      {"memory/memory.stat", "cache 700000\nrss 1\nshmem 2\ntotal_cache 700000\ntotal_rss 1000\ntotal_shmem 20\n", 1020},
		"another one":    {"cpu.stat", "usage_usec 1\n", 0},
		"damaged values": {"memory.stat", "anon\nkernel x\n\nshmem 99999999999999999999999\nslab_reclaimable 5", 0x7fffffffffffffff - 5},
	} {
		g, ok := ownGroup(fstest.MapFS{c.file: {Data: []byte(c.text)}})
		if got := g; ok != (c.want > 0) || ok && got.used() != c.want {
			t.Errorf("%s: %v, %v", name, got, ok)
		}
	}
}

// TestCharged: both versions say what the group is charged for.
func TestCharged(t *testing.T) {
	for file, want := range map[string]int64{"memory.current": 73900032, "memory/memory.usage_in_bytes": 73900032, "memory.max": 0} {
		if n := (group{dir: fstest.MapFS{file: {Data: []byte("73900032\n")}}}).charged(); n != want {
			t.Errorf("%s: %d; want %d", file, n, want)
		}
	}
}

// TestChargedOfWatcher: what is not known is not 0.
func TestChargedOfWatcher(t *testing.T) {
	if n, own := (&Watcher{}).Charged(); n != 0 || own != -1 {
		t.Errorf("without a group: %d, %d", n, own)
	}
	g := group{dir: fstest.MapFS{"memory.current": {Data: []byte("73900032\n")}, "memory.stat": {Data: []byte("anon 1000\nfile 70000000\nshmem 67108864\n")}}, file: "memory.stat", plus: []string{"anon", "shmem"}}
	if n, own := (&Watcher{charged: g.charged, own: g.used}).Charged(); n != 73900032 || own != 67109864 {
		t.Errorf("of a group: %d, %d", n, own)
	}
}

// TestKillsOfBoth: the guest's own kills count too, also where the kernel has none.
func TestKillsOfBoth(t *testing.T) {
	for name, c := range map[string]struct {
		kernel int64
		ok     bool
		want   int64
	}{"of both": {3, true, 5}, "of the guest": {0, true, 2}, "not known": {0, false, 2}} {
		w := &Watcher{kernel: func() (int64, bool) { return c.kernel, c.ok }}
		w.killed.Add(2)
		if n, ok := w.Kills(); n != c.want || ok != c.ok {
			t.Errorf("%s: %d, %v", name, n, ok)
		}
	}
}

// TestKills: both versions count what the kernel has killed.
func TestKills(t *testing.T) {
	for name, c := range map[string]struct {
		file, text string
		want       int64
		ok         bool
	}{
		"version 2": {"memory.events", "low 0\nmax 17\noom 4\noom_kill 3\noom_group_kill 0\n", 3, true},
		"version 1": {"memory/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n", 2, true},
		"none yet":  {"memory.events", "oom_kill 0\n", 0, true},
		"no group":  {"memory.stat", "anon 1\n", 0, false},
	} {
		if n, ok := kills(fstest.MapFS{c.file: {Data: []byte(c.text)}}); n != c.want || ok != c.ok {
			t.Errorf("%s: %d, %v", name, n, ok)
		}
	}
}
