package cgroup

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
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
	for _, dir := range []string{point, service} {
		for _, name := range []string{"cgroup.procs", "cgroup.controllers"} {
			if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
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
	for name, text := range map[string]string{"memory.max": "", "memory.swap.max": "", "memory.oom.group": "", "pids.max": "", "cpu.max": "", "memory.current": "4096\n", "memory.stat": "anon 9\ninactive_file 1000\nactive_file 24\n", "memory.peak": "8192\n",
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
	if s := g.Stats(); s != (Stats{CPU: 2500 * time.Microsecond, Memory: 4096, MemoryCached: 1024, MemoryPeak: 8192, MemoryKills: 3, Processes: 7}) {
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

func TestBases(t *testing.T) {
	for _, c := range []struct {
		point, root, own string
		want             []string
	}{
		{"/cg", "", "/", []string{"/cg"}},
		{"/cg", "", "", []string{"/cg"}}, // not in version 2 at all
		{"/cg", "", "/user.slice/s.scope", []string{"/cg", "/cg/user.slice/s.scope"}},
		{"/cg", "", "/user.slice/s.scope/hortus-host", []string{"/cg", "/cg/user.slice/s.scope"}},
		{"/cg", "", "/hortus-host", []string{"/cg"}},
		{"/cg", "/docker/x", "/docker/x/y", []string{"/cg", "/cg/y"}},
		{"/cg", "/docker/x", "/docker/x", []string{"/cg"}},
		{"/cg", "", "/../elsewhere", []string{"/cg"}},
	} {
		if got := bases(mount{point: c.point, root: c.root, unified: true}, c.own); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// unified finds the version 2 group that this process is in and may divide.
func unified(t *testing.T) string {
	t.Helper()
	mounts, err := readMounts("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	own, err := readSelf("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mounts {
		b := bases(m, own[""])
		offered, _ := names(m.point + "/cgroup.controllers")
		if !m.unified || len(b) < 2 || !slices.Contains(offered, "memory") || os.Geteuid() == 0 {
			continue
		}
		mine := b[1]
		if mine == m.point { // a service manager handed the own one over
			mine = b[0]
		}
		if err := unix.Access(mine+"/cgroup.subtree_control", unix.W_OK); err != nil {
			t.Skipf("the group %s is not delegated to this user: %v", mine, err)
		}
		return mine
	}
	t.Skip("this process is an ordinary user's in a version 2 group below the top, with controllers, on other hosts only")
	return ""
}

// In a delegated group, what runs beside this process moves with it, a second
// owner finds the same place, and what was made can be divided again.
func TestMakesWay(t *testing.T) {
	base := unified(t)
	shell := exec.Command("/usr/bin/sleep", "3600")
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		shell.Process.Kill()
		shell.Wait()
	}()
	for i := range 3 {
		h, err := Detect(Options{Name: fmt.Sprintf("hortus-test-%d-%d", os.Getpid(), i)})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range controllers {
			if ok, why := h.Has(c); !ok || h.Version(c) != "cgroup v2" {
				t.Errorf("owner %d: %s: %s", i, c, why)
			}
		}
		if want := filepath.Join(base, fmt.Sprintf("hortus-test-%d-%d", os.Getpid(), i)); len(h.parents) != 1 || h.parents[0] != want {
			t.Errorf("owner %d: groups below %q, not %s", i, h.parents, want)
		}
		h.Close()
	}
	if left, err := names(base + "/cgroup.procs"); err != nil || len(left) > 0 {
		t.Errorf("%q are in a group that hands controllers down (%v)", left, err)
	}
	pids, err := names(filepath.Join(base, hostGroup, "cgroup.procs"))
	for _, pid := range []int{os.Getpid(), shell.Process.Pid} {
		if !slices.Contains(pids, strconv.Itoa(pid)) {
			t.Errorf("%d is not among %q (%v)", pid, pids, err)
		}
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
	born := func(fd int) error {
		cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: fd >= 0, CgroupFD: fd}
		return cmd.Start()
	}
	seat, err := g.Seat()
	if err == nil {
		err = seat.Take(born)
		seat.Close()
	}
	if err != nil {
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
	if strings.Contains(string(own), filepath.Base(h.parents[0])+"/x") {
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
