package story

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// dropped are the capabilities that a root daemon has none of, by their numbers in
// linux/capability.h: LINUX_IMMUTABLE, NET_BROADCAST, NET_RAW, IPC_OWNER, SYS_MODULE,
// SYS_RAWIO, SYS_PACCT, SYS_BOOT, SYS_TTY_CONFIG, LEASE, AUDIT_WRITE, AUDIT_CONTROL,
// MAC_OVERRIDE, MAC_ADMIN, SYSLOG, WAKE_ALARM, BLOCK_SUSPEND, AUDIT_READ, PERFMON, BPF,
// CHECKPOINT_RESTORE.
var dropped = []int{9, 11, 13, 15, 16, 17, 20, 22, 26, 28, 29, 30, 32, 33, 34, 35, 36, 37, 38, 39, 40}

// status reads a field of a task's /proc status.
func status(t *testing.T, task, field string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(task, "status"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.TrimSpace(v)
		}
	}
	t.Fatalf("%s has no %s", task, field)
	return ""
}

// tries are programs for python3 that use what a daemon has not. A program ends with 0
// if that was allowed.
var tries = map[string]string{
	"a raw socket":  `import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW)`,
	"the log":       `import ctypes; import sys; sys.exit(ctypes.CDLL(None).klogctl(10, None, 0) < 0)`,
	"perf events":   `import ctypes, sys; a = ctypes.create_string_buffer(128); a[4] = 128; a[0] = 1; sys.exit(ctypes.CDLL(None).syscall(298, a, 0, -1, -1, 0) < 0)`,
	"a key of root": `import ctypes, sys; sys.exit(ctypes.CDLL(None).syscall(248, b"user", b"hortus-test", b"x", 1, -1) < 0)`,
}

// TestPrivileges: every thread of a root daemon, its forker and a program that it
// starts without a sandbox have no capability that is never used, and cannot use one.
// Sandboxes run all the same.
func TestPrivileges(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("an ordinary user's daemon has no privileges to drop")
	}
	g := newGarden(t)
	g.shareKernel()
	id := strings.TrimSpace(g.must("sandbox", "create", "--ttl", "10m"))
	if out := g.must("sandbox", "exec", id, "--", "id", "-un"); out != "user\n" {
		t.Errorf("in a container: %q", out)
	}
	daemon := strconv.Itoa(daemonOf(g.dir))
	processes := []string{daemon}
	stats, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	forkers := 0
	for _, dir := range stats {
		line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err == nil && strings.HasPrefix(string(line), "hortus-init\x00fork") && status(t, dir, "PPid") == daemon {
			forkers++
			processes = append(processes, filepath.Base(dir))
		}
	}
	if forkers != 1 {
		t.Errorf("%d forkers were found", forkers)
	}
	threads := 0
	for _, pid := range processes {
		tasks, err := filepath.Glob("/proc/" + pid + "/task/[0-9]*")
		if err != nil {
			t.Fatal(err)
		}
		for _, task := range tasks {
			threads++
			if nnp, filter := status(t, task, "NoNewPrivs"), status(t, task, "Seccomp"); nnp != "1" || filter != "2" {
				t.Errorf("%s: NoNewPrivs %s, Seccomp %s", task, nnp, filter)
			}
			for _, set := range []string{"CapEff", "CapPrm", "CapInh", "CapBnd"} {
				have, err := strconv.ParseUint(status(t, task, set), 16, 64)
				if err != nil {
					t.Fatal(err)
				}
				for _, c := range dropped {
					if have&(1<<c) != 0 {
						t.Errorf("%s: capability %d is in %s", task, c, set)
					}
				}
			}
		}
	}
	t.Logf("%d threads", threads)
	// What the daemon starts without a sandbox has what the daemon has.
	none := strings.TrimSpace(g.must("sandbox", "create", "--isolation", "process", "--ttl", "10m"))
	if runtime.GOARCH != "amd64" {
		t.Log("the numbers of perf_event_open and add_key are known for amd64 alone")
		delete(tries, "perf events")
		delete(tries, "a key of root")
	}
	controls := 0
	for what, program := range tries {
		if r := g.run("sandbox", "exec", none, "--", "python3", "-c", program); r.code == 0 {
			t.Errorf("%s: allowed: %s", what, r)
		}
		// The control: this process may.
		if out, err := exec.Command("python3", "-c", program).CombinedOutput(); err == nil {
			controls++
		} else {
			t.Logf("%s is refused on this machine to everybody: %s", what, lastLine(out))
		}
	}
	if controls == 0 {
		t.Error("the control: nothing of it is allowed here to root")
	}
}

func lastLine(out []byte) string {
	lines := strings.Split(strings.TrimSpace(fmt.Sprintf("%s", out)), "\n")
	return lines[len(lines)-1]
}
