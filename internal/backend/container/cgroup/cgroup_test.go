package cgroup

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// fake makes a table of mounts over ordinary directories.
func fake(t *testing.T, lines ...string) Options {
	t.Helper()
	dir := t.TempDir()
	var mounts strings.Builder
	for i, l := range lines {
		kind, opts, _ := strings.Cut(l, " ")
		p := filepath.Join(dir, strings.ReplaceAll(opts, ",", "-")+kind)
		if err := os.MkdirAll(p, 0o755); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&mounts, "%d 1 0:%d / %s rw,relatime - %s %s rw,%s\n", 30+i, i, p, kind, kind, opts)
	}
	o := Options{Name: "hortus-test", MountInfo: filepath.Join(dir, "mountinfo"), Self: filepath.Join(dir, "self")}
	if err := os.WriteFile(o.MountInfo, []byte(mounts.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(o.Self, []byte("2:memory:/\n0::/\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestDetect(t *testing.T) {
	h, err := Detect(fake(t, "cgroup memory", "cgroup cpu,cpuacct", "cgroup pids"))
	if err != nil {
		t.Fatal(err)
	}
	for c, want := range map[Controller]string{Memory: "cgroup v1", CPU: "cgroup v1", CPUAcct: "cgroup v1", Pids: "cgroup v1", Freezer: "", Kill: ""} {
		if got := h.Version(c); got != want {
			t.Errorf("%s is on %q, want %q", c, got, want)
		}
		if ok, why := h.Has(c); ok == (why != "") {
			t.Errorf("%s: %v without the right reason %q", c, ok, why)
		}
	}
	h, err = Detect(fake(t))
	if err != nil {
		t.Fatal(err)
	}
	if ok, why := h.Has(Memory); ok || why == "" {
		t.Errorf("a host without groups has memory: %q", why)
	}
	if _, err := Detect(Options{Name: "../x"}); err == nil {
		t.Error("a name with a path was accepted")
	}
}

// A group that a service manager handed over is used before the top of the
// hierarchy.
func TestDelegated(t *testing.T) {
	o := fake(t, "cgroup2 nsdelegate")
	point := filepath.Join(filepath.Dir(o.MountInfo), "nsdelegatecgroup2")
	service := filepath.Join(point, "system.slice/hortus.service")
	if err := os.MkdirAll(service, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(o.Self, []byte("0::/system.slice/hortus.service\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	parent := func() string {
		t.Helper()
		h, err := Detect(o)
		if err != nil || len(h.parents) != 1 {
			t.Fatalf("%v, %v", h, err)
		}
		return h.parents[0]
	}
	if got := parent(); got != filepath.Join(point, "hortus-test") {
		t.Errorf("without a mark: %s", got)
	}
	marked := false
	for _, name := range []string{"user.delegate", "trusted.delegate"} {
		if err := unix.Setxattr(service, name, []byte("1"), 0); err == nil {
			marked = true
			break
		}
	}
	if !marked {
		t.Skip("this file system keeps no attributes")
	}
	if got := parent(); got != filepath.Join(service, "hortus-test") {
		t.Errorf("with a mark: %s", got)
	}
}

// The version 2 files that are written and read, over an ordinary directory.
func TestUnifiedFiles(t *testing.T) {
	dir := t.TempDir()
	h := &Host{places: map[Controller]place{}, missing: map[Controller]string{}, home: map[string]string{}, unified: dir, parents: []string{dir}}
	for _, c := range controllers {
		h.places[c] = place{dir, true}
	}
	sub := filepath.Join(dir, "x")
	if err := os.Mkdir(sub, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"memory.max": "", "memory.swap.max": "", "memory.oom.group": "", "pids.max": "", "cpu.max": "", "memory.current": "4096\n", "memory.peak": "8192\n",
		"memory.events": "low 0\noom_kill 3\n", "cpu.stat": "usage_usec 2500\n", "pids.current": "7\n", "cgroup.freeze": "", "cgroup.events": "populated 1\nfrozen 1\n", "cgroup.procs": "123\n0\n456\n"} {
		if err := os.WriteFile(filepath.Join(sub, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	g := h.Open("x")
	if err := g.limit(Limits{MemoryBytes: 1 << 20, Processes: 9, CPUs: 0.5}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"memory.max": "1048576", "memory.swap.max": "0", "memory.oom.group": "0", "pids.max": "9", "cpu.max": "50000 100000"} {
		if b, _ := os.ReadFile(filepath.Join(sub, name)); string(b) != want {
			t.Errorf("%s holds %q, want %q", name, b, want)
		}
	}
	if s := g.Stats(); s != (Stats{CPU: 2500 * time.Microsecond, Memory: 4096, MemoryPeak: 8192, MemoryKills: 3, Processes: 7}) {
		t.Errorf("stats %+v", s)
	}
	if p := g.Procs(); len(p) != 2 || p[0] != 123 || p[1] != 456 {
		t.Errorf("processes %v", p)
	}
	if err := g.Freeze(context.Background()); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := g.Thaw(ctx); err == nil {
		t.Error("a thaw that never comes was waited for")
	}
}

// A process is born in the group of this very host, frozen, counted and killed.
func TestRealGroup(t *testing.T) {
	h, err := Detect(Options{Name: fmt.Sprintf("hortus-test-%d", os.Getpid())})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if ok, why := h.Has(Pids); !ok {
		t.Skip("no control groups for this user: " + why)
	}
	g, err := h.Create("x", Limits{Processes: 50, MemoryBytes: 64 << 20, CPUs: 1})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/usr/bin/sleep", "3600")
	if err := g.Spawn(func(int) error { return cmd.Start() }); err != nil {
		g.Remove(time.Second)
		t.Fatal(err)
	}
	procs := g.Procs()
	if len(procs) != 1 || procs[0] != cmd.Process.Pid {
		t.Errorf("the group holds %v, not %d", procs, cmd.Process.Pid)
	}
	if s := g.Stats(); s.Processes != 1 {
		t.Errorf("stats %+v", s)
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(own), "hortus-test-") {
		t.Errorf("this process stayed in the group:\n%s", own)
	}
	cmd.Process.Kill()
	cmd.Wait()
	if err := g.Remove(5 * time.Second); err != nil {
		t.Error(err)
	}
	if g.Exists() {
		t.Error("it is there after Remove")
	}
}
