package conformance

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail/seccomp"
	"hortus.dev/test/tier"
)

// update writes what was seen to the file that the policy's own test reads.
var update = flag.Bool("update", false, "write the calls that toolchains were seen to use to the seccomp package's testdata")

// usedFile says of each call which toolchains use it.
const usedFile = "../../internal/backend/jail/seccomp/testdata/toolchains.txt"

// livedWith are calls that programs try and that the policy refuses; what they
// do instead. A refused call that is not here is one that nobody has thought
// about.
var livedWith = map[string]string{
	"clone3":            "the C library falls back to clone on ENOSYS",
	"io_uring_setup":    "libuv falls back to epoll and threads on ENOSYS",
	"name_to_handle_at": "the C library's fallback is to ask for nothing",
	"get_mempolicy":     "a runtime that looks for NUMA nodes finds none",
	"set_mempolicy":     "a runtime that looks for NUMA nodes finds none",
	"mbind":             "a runtime that looks for NUMA nodes finds none",
	"unshare":           "a browser probes for a sandbox of its own",
	"ptrace":            "a crash handler goes without",
	"sched_setattr":     "a priority stays as it is",
}

// TestToolchainCalls runs every toolchain in a sandbox whose guest is traced from
// the host, and compares what they call with what the policy allows. With -update
// it writes the list from which the policy was derived; that takes all of the
// toolchains, and so T2.
func TestToolchainCalls(t *testing.T) {
	tier.AnyUser(t)
	switch {
	case os.Geteuid() != 0:
		t.Skip("only root may trace a guest")
	case runtime.GOARCH != "amd64":
		t.Skipf("the list is of amd64; this is %s", runtime.GOARCH)
	}
	if _, err := exec.LookPath("strace"); err != nil {
		t.Skip("strace is not installed")
	}
	policy, err := seccomp.Default(seccomp.Options{GuestUID: 65533, GuestGID: 65533})
	if err != nil {
		t.Fatal(err)
	}
	allowed, err := policy.Allowed()
	if err != nil {
		t.Fatal(err)
	}
	m := newManaged(t)
	// What is started with the first look at the host is no guest.
	if err := m.Planner.Check(t.Context(), api.CreateSandbox{Isolation: "container"}); err != nil {
		t.Fatal(err)
	}
	users := map[string][]string{} // of each call, the toolchains
	absent := []string{}
	for _, c := range toolchains {
		if !c.quick && !tier.Soaking() {
			absent = append(absent, c.name)
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			before := descendantsOf(os.Getpid())
			sandbox := m.room(t)
			if missing := c.missing(t, m, sandbox); len(missing) > 0 {
				absent = append(absent, c.name)
				t.Skipf("not installed where the host template shows it: %s", strings.Join(missing, ", "))
			}
			if c.warm != "" {
				if _, stderr, exit := m.bash(t, sandbox.ID, "user", c.warm); exit.Code != 0 {
					t.Fatalf("warm %s: %+v %s", c.name, exit, stderr)
				}
			}
			tracer := trace(t, guestAmong(t, before))
			c.run(t, m, sandbox)
			for _, call := range tracer.stop(t) {
				users[call] = append(users[call], c.name)
			}
		})
	}
	for _, call := range slices.Sorted(maps.Keys(users)) {
		_, known := livedWith[call]
		switch {
		case slices.Contains(allowed, call) || strings.HasPrefix(call, "syscall_"): // newer than strace, and than the policy
		case known:
			t.Logf("%s is refused to %q: %s", call, users[call], livedWith[call])
		default:
			t.Errorf("%s is refused to %q, and nobody says what they do without it", call, users[call])
		}
	}
	if len(absent) > 0 {
		t.Logf("not run, so their calls are not looked at: %q", absent)
	}
	compare(t, users, allowed, len(absent) == 0)
}

// compare holds what was seen against what is recorded. Versions of a toolchain
// differ: what is new or gone is told and not an error, since what is refused to
// one that needs it shows in its failure.
func compare(t *testing.T, users map[string][]string, allowed []string, whole bool) {
	t.Helper()
	var text bytes.Buffer
	fmt.Fprintln(&text, "# The allowed calls that real toolchains use inside a sandbox, and which.")
	fmt.Fprintln(&text, "# Written by: go test ./test/conformance -run TestToolchainCalls -update")
	for _, call := range slices.Sorted(maps.Keys(users)) {
		if slices.Contains(allowed, call) {
			fmt.Fprintf(&text, "%s: %s\n", call, strings.Join(users[call], " "))
		}
	}
	if *update {
		if !whole {
			t.Fatalf("not every toolchain was run: the list would lose what they use (%s=soak runs them all)", tier.Variable)
		}
		if err := os.WriteFile(usedFile, text.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	recorded, err := os.ReadFile(usedFile)
	if err != nil {
		t.Fatal(err)
	}
	old := map[string]bool{}
	for line := range strings.Lines(string(recorded)) {
		if call, _, ok := strings.Cut(line, ":"); ok && !strings.HasPrefix(line, "#") {
			old[call] = true
			if users[call] == nil && whole {
				t.Logf("%s was used when the list was made and is not now", call)
			}
		}
	}
	seen := 0
	for call := range users {
		if slices.Contains(allowed, call) {
			seen++
			if !old[call] {
				t.Logf("%s is used by %q and is not on the list", call, users[call])
			}
		}
	}
	t.Logf("%d of %d allowed calls were used", seen, len(allowed))
	if whole && seen < 80 {
		t.Errorf("only %d calls were seen; was anything traced?", seen)
	}
}

// guestAmong finds the child of this process that was born since.
func guestAmong(t *testing.T, before []int) int {
	t.Helper()
	for _, pid := range descendantsOf(os.Getpid()) {
		if !slices.Contains(before, pid) {
			return pid
		}
	}
	t.Fatal("the guest was not found among the descendants of this process")
	return 0
}

// tracer is a strace of a guest and of everything that it starts.
type tracer struct {
	cmd  *exec.Cmd
	file string
	errs bytes.Buffer
}

// trace attaches and waits until every thread of the guest is traced.
func trace(t *testing.T, pid int) *tracer {
	t.Helper()
	tr := &tracer{file: filepath.Join(t.TempDir(), "calls")}
	tr.cmd = exec.CommandContext(t.Context(), "strace", "-f", "-c", "-q", "-o", tr.file, "-p", strconv.Itoa(pid))
	tr.cmd.Stderr = &tr.errs
	// A tracer that is ended softly leaves its processes running.
	tr.cmd.Cancel = func() error { return tr.cmd.Process.Signal(syscall.SIGINT) }
	tr.cmd.WaitDelay = patience
	if err := tr.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); !traced(pid, tr.cmd.Process.Pid); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			tr.cmd.Process.Kill()
			tr.cmd.Wait()
			t.Fatalf("strace does not trace the guest: %s", tr.errs.String())
		}
	}
	return tr
}

// traced reports whether every thread of a process is traced by another.
func traced(pid, by int) bool {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil || len(tasks) == 0 {
		return false
	}
	for _, f := range tasks {
		b, err := os.ReadFile(f)
		if err == nil && !bytes.Contains(b, fmt.Appendf(nil, "TracerPid:\t%d\n", by)) {
			return false
		}
	}
	return true
}

// stop detaches and reads the summary: a call's name is the last word of a line
// between two rules.
func (tr *tracer) stop(t *testing.T) []string {
	t.Helper()
	if err := tr.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := tr.cmd.Wait(); err != nil && tr.cmd.ProcessState.Exited() && tr.cmd.ProcessState.ExitCode() != 0 {
		t.Logf("strace: %v %s", err, tr.errs.String())
	}
	f, err := os.Open(tr.file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []string
	rules := 0
	for s := bufio.NewScanner(f); s.Scan(); {
		words := strings.Fields(s.Text())
		switch {
		case strings.HasPrefix(s.Text(), "------"):
			rules++
		case rules == 1 && len(words) > 4:
			out = append(out, words[len(words)-1])
		}
	}
	if len(out) == 0 {
		t.Fatalf("strace saw nothing: %s", tr.errs.String())
	}
	return out
}
