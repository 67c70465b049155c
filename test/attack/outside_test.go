package attack

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
)

// This file looks from the host at the processes that a kernel of a sandbox's own is
// made of: what they would have if the code inside got out of that kernel.

// keeper is the first process of a sandbox, or 0 when it has ended.
func (w *world) keeper(t *testing.T, id api.SandboxID) int {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(w.run, string(id), "pid"))
	if err != nil {
		return 0
	}
	f := strings.Fields(string(b))
	pid, err := strconv.Atoi(f[0])
	if err != nil {
		t.Fatalf("the identity of a first process is %q", b)
	}
	return pid
}

// status reads the fields of a process's or thread's status.
func status(dir string) map[string]string {
	fields := map[string]string{}
	b, _ := os.ReadFile(dir + "/status")
	for line := range strings.Lines(string(b)) {
		k, v, _ := strings.Cut(line, ":")
		fields[k] = strings.TrimSpace(v)
	}
	return fields
}

func residentOf(pid int) int64 {
	f := strings.Fields(status(fmt.Sprint("/proc/", pid))["VmRSS"])
	if len(f) == 0 {
		return 0
	}
	n, _ := strconv.ParseInt(f[0], 10, 64)
	return n << 10
}

// below lists a process and its descendants.
func below(pid int) []int {
	parents := map[int][]int{}
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		child, _ := strconv.Atoi(filepath.Base(dir))
		parent, _ := strconv.Atoi(status(dir)["PPid"])
		parents[parent] = append(parents[parent], child)
	}
	all := []int{pid}
	for i := 0; i < len(all); i++ {
		all = append(all, parents[all[i]]...)
	}
	return all
}

// part returns which part of a sandbox a process is.
func part(pid, keeper int) string {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	name, _, _ := strings.Cut(string(b), "\x00")
	switch {
	case pid == keeper:
		return "keeper"
	case name == "runsc-sandbox":
		return "sentry"
	case name == "runsc-gofer":
		return "gofer"
	}
	return "stub" // an address space of the code inside, which only the sentry runs
}

// held are the capabilities, over its own user namespace alone, that each part may
// have at most: those of files for the gofer, which opens them, and of tracing for
// the sentry, which runs the code in other address spaces.
var held = map[string]uint64{
	"keeper": 0,
	"sentry": 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_DAC_READ_SEARCH | 1<<unix.CAP_FOWNER | 1<<unix.CAP_FSETID | 1<<unix.CAP_SYS_PTRACE,
	"gofer": 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_DAC_READ_SEARCH | 1<<unix.CAP_FOWNER | 1<<unix.CAP_FSETID |
		1<<unix.CAP_SYS_CHROOT | 1<<unix.CAP_SETGID | 1<<unix.CAP_SETUID | 1<<unix.CAP_MKNOD | 1<<unix.CAP_SETFCAP,
}

// TestWhatTheKernelHolds looks at every process and thread of a sandbox of gvisor's
// while it works.
func TestWhatTheKernelHolds(t *testing.T) {
	t.Setenv("ATTACK_SECRET", "of the caller")
	leak, err := os.Open(t.TempDir()) // a descriptor that nothing closes
	if err != nil {
		t.Fatal(err)
	}
	defer leak.Close()
	if _, err := unix.FcntlInt(leak.Fd(), unix.F_SETFD, 0); err != nil {
		t.Fatal(err)
	}
	w := newWorldOf(t, "gvisor", "")
	sandbox := w.create(t, nil)
	s, err := w.Guests.StartExec(within(t), sandbox.ID, api.ExecRequest{Args: []string{"sh", "-c", "cat /etc/passwd /usr/bin/env >/dev/null; sleep 1000"}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	w.alive(t, sandbox.ID)
	keeper := w.keeper(t, sandbox.ID)
	parts := map[string]int{}
	for _, pid := range below(keeper) {
		dir := fmt.Sprint("/proc/", pid)
		if st := status(dir); st["State"] == "" || strings.HasPrefix(st["State"], "Z") {
			continue
		}
		what := part(pid, keeper)
		parts[what]++
		t.Run(fmt.Sprintf("%s %d", what, parts[what]), func(t *testing.T) {
			threads, err := os.ReadDir(dir + "/task")
			if err != nil {
				t.Skipf("it has ended: %v", err)
			}
			for _, thread := range threads {
				confined(t, what, dir+"/task/"+thread.Name())
			}
			apart(t, what, dir, string(sandbox.ID))
			if what != "stub" {
				openFiles(t, what, dir)
			}
		})
	}
	t.Logf("parts: %v", parts)
	if parts["keeper"] != 1 || parts["sentry"] != 1 || parts["gofer"] != 1 {
		t.Errorf("the parts of the sandbox are %v", slices.Sorted(maps.Keys(parts)))
	}
	// The control: this process has what those must not have.
	if st := status("/proc/self"); os.Geteuid() == 0 && (st["CapEff"] == "0000000000000000" || st["Seccomp"] != "0") {
		t.Logf("no control: the tests themselves run confined (%s, seccomp %s)", st["CapEff"], st["Seccomp"])
	}
}

// confined judges a thread by its status.
func confined(t *testing.T, what, dir string) {
	t.Helper()
	st := status(dir)
	if st["Uid"] == "" {
		return // it has ended
	}
	for _, ids := range []string{st["Uid"], st["Gid"]} {
		f := strings.Fields(ids)
		id, _ := strconv.Atoi(f[0])
		same := f[0] == f[1] && f[0] == f[2] && f[0] == f[3]
		if !same || os.Geteuid() == 0 && (id < 1<<16 || id%(1<<16) != 0) || os.Geteuid() != 0 && ids == st["Uid"] && id != os.Geteuid() {
			t.Errorf("%s: ids %s; want the first of a leased range, or an ordinary user's own", dir, ids)
		}
	}
	if os.Geteuid() == 0 && st["Groups"] != "" {
		t.Errorf("%s: groups %s", dir, st["Groups"])
	}
	if what == "stub" {
		return // the sentry's filter for it is checked by its answer to calls
	}
	if st["Seccomp"] != "2" || st["NoNewPrivs"] != "1" {
		t.Errorf("%s: seccomp %s, no_new_privs %s", dir, st["Seccomp"], st["NoNewPrivs"])
	}
	for _, set := range []string{"CapPrm", "CapEff", "CapInh", "CapAmb"} {
		mask, err := strconv.ParseUint(st[set], 16, 64)
		most := held[what]
		if what != "gofer" && (set == "CapAmb" || set == "CapInh") {
			most = 0 // the gofer was executed with what it has
		}
		if err != nil || mask&^most != 0 {
			t.Errorf("%s: %s is %s; want at most %x", dir, set, st[set], most)
		}
	}
}

// apart judges a process by its namespaces, groups, environment and limits.
func apart(t *testing.T, what, dir, id string) {
	t.Helper()
	for _, ns := range []string{"user", "pid", "net", "mnt", "ipc", "uts", "cgroup"} {
		ours, err := os.Readlink("/proc/self/ns/" + ns)
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := os.Readlink(dir + "/ns/" + ns)
		if err != nil {
			t.Logf("%s: %v", ns, err)
			continue
		}
		if ours == theirs {
			t.Errorf("%s is in the host's %s namespace", what, ns)
		}
	}
	if env, err := os.ReadFile(dir + "/environ"); err == nil && strings.Contains(string(env), "ATTACK") {
		t.Errorf("%s has the caller's environment: %q", what, env)
	} else if err == nil && (what == "sentry" || what == "gofer") && len(strings.Trim(string(env), "\x00")) > 0 {
		t.Errorf("%s has an environment: %q", what, env)
	}
	if os.Geteuid() == 0 {
		groups, err := os.ReadFile(dir + "/cgroup")
		if err != nil || !strings.Contains(string(groups), id) {
			t.Errorf("%s is not in its sandbox's control groups: %q, %v", what, groups, err)
		}
	}
	if limits, err := os.ReadFile(dir + "/limits"); err == nil {
		for line := range strings.Lines(string(limits)) {
			if f := strings.Fields(line); strings.HasPrefix(line, "Max core file size") && f[4] != "1" && what != "stub" {
				t.Errorf("%s has %s: the host's handler would run at a crash", what, strings.TrimSpace(line))
			}
		}
	}
}

// openFiles judges a process by what it holds open beyond the standard three.
func openFiles(t *testing.T, what, dir string) {
	t.Helper()
	host := map[string]string{} // mounts of the host's by their ids
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 4 {
			host[f[0]] = f[4]
		}
	}
	fds, err := os.ReadDir(dir + "/fd")
	if err != nil {
		t.Logf("descriptors: %v", err)
		return
	}
	for _, fd := range fds {
		target, err := os.Readlink(dir + "/fd/" + fd.Name())
		if err != nil {
			continue
		}
		info, _ := os.ReadFile(dir + "/fdinfo/" + fd.Name())
		mount := ""
		for line := range strings.Lines(string(info)) {
			if v, ok := strings.CutPrefix(line, "mnt_id:"); ok {
				mount = strings.TrimSpace(v)
			}
		}
		at, ofHost := host[mount]
		switch {
		case target == "/dev/null", strings.HasPrefix(target, "anon_inode:"), strings.HasPrefix(target, "pipe:"), strings.HasPrefix(target, "socket:"):
			continue
		case what == "sentry" && slices.Contains([]string{"/memfd:runsc-memory (deleted)", "/memfd:systrap-memory (deleted)", "/memfd:memory-usage (deleted)"}, target):
			continue
		case what == "gofer" && (target == "/memfd:flipcall_packet_windows (deleted)" || target == "/state/bundle/config.json" && !ofHost):
			continue // what it speaks to the sentry by, and what the keeper wrote
		case ofHost:
			t.Errorf("%s holds descriptor %s of %s, on the host's mount %s", what, fd.Name(), target, at)
		case what == "keeper":
			t.Errorf("%s holds descriptor %s of %s", what, fd.Name(), target)
		case target == "/" || target == "/root" || strings.HasPrefix(target, "/root/") || strings.HasPrefix(target, "/durable"):
		default:
			t.Errorf("%s holds descriptor %s of %s", what, fd.Name(), target)
		}
	}
}
