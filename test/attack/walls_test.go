package attack

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
)

// onHost runs a script on the host, where the walls are missing.
func onHost(t *testing.T, wrap []string, script string) string {
	t.Helper()
	args := append(wrap, "sh", "-c", script)
	out, err := exec.CommandContext(within(t), args[0], args[1:]...).CombinedOutput()
	if err != nil {
		t.Errorf("control: %q: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// TestCoreDumps tries to come to the one limit at which the kernel gives a crash
// to the host's handler, which runs as the host's root.
func TestCoreDumps(t *testing.T) { onSharedKernel(t, coreDumps) }

func coreDumps(t *testing.T, w *world) {
	sandbox := w.create(t, nil)
	prog := w.program(t, sandbox.ID)
	const script = `ulimit -S -c 0 2>/dev/null; ulimit -c 0; prlimit --core=0:0 2>/dev/null; awk '/core file/ {print $5, $6}' /proc/self/limits`
	for _, user := range sandbox.Identities {
		if r := w.exec(t, sandbox.ID, user, "bash", "-c", script); r.stdout != "1 1\n" {
			t.Errorf("%s has core limits of %q after trying to change them; want 1 1\n%s", user, r.stdout, r.stderr)
		}
		for _, try := range []string{"setrlimit", "prlimit", "prlimit with a pointer whose lower half is empty"} {
			if r := w.exec(t, sandbox.ID, user, prog, roleProbe, "core by "+try); strings.TrimSpace(r.stdout) != "limits 1 1" {
				t.Errorf("%s by %s: %q %s", user, try, r.stdout, r.stderr)
			}
		}
	}
	if _, err := exec.LookPath("prlimit"); err != nil {
		t.Log("no control: prlimit is not installed")
		return
	}
	if got := onHost(t, []string{"prlimit", "--core=1:1"}, `ulimit -c 0; awk '/core file/ {print $5, $6}' /proc/self/limits`); got != "0 0" {
		t.Errorf("control: without the wall the limits are %q; want 0 0", got)
	}
	for _, try := range []string{"setrlimit", "prlimit", "prlimit with a pointer whose lower half is empty"} {
		out, err := exec.Command("/proc/self/exe", roleProbe, "core by "+try).Output()
		if got := strings.TrimSpace(string(out)); err != nil || got != "limits 0 0" {
			t.Errorf("control: by %s: %q, %v; want 0 0", try, got, err)
		}
	}
}

// coreTry sets the limit of core dumps to nought and says what it is then.
func coreTry(how string) int {
	var err error
	switch how {
	case "setrlimit":
		var none [2]uint64
		err = sys(unix.SYS_SETRLIMIT, unix.RLIMIT_CORE, uintptr(unsafe.Pointer(&none)))
	case "prlimit":
		var none [2]uint64
		err = sys(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_CORE, uintptr(unsafe.Pointer(&none)))
	default:
		// A page of noughts at 4 GiB.
		const at = 1 << 32
		got, _, e := unix.RawSyscall6(unix.SYS_MMAP, at, 4096, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_FIXED_NOREPLACE, ^uintptr(0), 0)
		if e != 0 || got != at {
			fmt.Println("no page there:", e)
			return 1
		}
		err = sys(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_CORE, at)
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	var now unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &now); err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("limits", now.Cur, now.Max)
	return 0
}

// TestClocks wants no clock to tell when the machine started.
func TestClocks(t *testing.T) {
	mine, err := os.Readlink("/proc/self/ns/time")
	if err != nil {
		t.Skip("this kernel has no time namespaces")
	}
	var since unix.Sysinfo_t
	if err := unix.Sysinfo(&since); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	sandbox := w.create(t, nil)
	for _, r := range w.Backends.Reports(t.Context()) {
		if a, _ := r.Has(api.CapIsolated); r.Backend == sandbox.Isolation && strings.Contains(a.Reason, "the machine's clocks") {
			t.Skipf("sandboxes have no clocks of their own here: %s", a.Reason)
		}
	}
	// The control: another process of the host's is in this one's namespace.
	if got := onHost(t, nil, "readlink /proc/self/ns/time"); got != mine {
		t.Errorf("control: %s on the host, %s here", got, mine)
	}
	for _, user := range sandbox.Identities {
		r := w.exec(t, sandbox.ID, user, "sh", "-c", `readlink /proc/self/ns/time; cut -d. -f1 /proc/uptime; (echo "monotonic 1 0" > /proc/self/timens_offsets) 2>/dev/null && echo wrote; date +%s`)
		lines := strings.Fields(r.stdout)
		if len(lines) != 3 || lines[0] == mine {
			t.Errorf("%s: %q, and the host has %s\n%s", user, lines, mine, r.stderr)
			continue
		}
		var up int64
		if _, err := fmt.Sscan(lines[1], &up); err != nil {
			t.Fatal(err)
		}
		// A minute, and what this test took, which is bounded by its patience.
		most := int64(60 + 2*patience.Seconds())
		if since.Uptime > 2*most && up > most {
			t.Errorf("%s sees a machine that is up for %d s; the host is for %d", user, up, since.Uptime)
		}
	}
}

// TestRootRegainsNothing gives up capabilities as root inside and executes
// something, which elsewhere gives them back to uid 0.
func TestRootRegainsNothing(t *testing.T) { onEach(t, rootRegainsNothing) }

func rootRegainsNothing(t *testing.T, w *world) {
	if _, err := exec.LookPath("setpriv"); err != nil {
		t.Skip("setpriv is not installed")
	}
	const script = `setpriv --ambient-caps=-all grep CapEff /proc/self/status`
	w.needs(t, api.CapRootIdentity)
	sandbox := w.create(t, nil)
	// On a kernel of its own the guest sets no secure bits: root has again what it began with, and
	// nothing else.
	want := "CapEff:\t0000000000000000\n"
	if w.isolation == "gvisor" || w.isolation == "microvm" {
		want = "CapEff:\t00000000000004db\n"
		if r := w.exec(t, sandbox.ID, "root", "grep", "CapEff", "/proc/self/status"); r.stdout != want {
			t.Errorf("root inside begins with %q; want %q", r.stdout, want)
		}
	}
	if r := w.exec(t, sandbox.ID, "root", "sh", "-c", script); r.stdout != want {
		t.Errorf("root inside has %q after it gave up what it had\n%s", r.stdout, r.stderr)
	}
	if os.Geteuid() != 0 {
		t.Log("no control: the run as root has it")
		return
	}
	// The control: for the host's root, for whom no secure bits are set, executing
	// something is enough to hold all again.
	if got := onHost(t, nil, script); got == "CapEff:\t0000000000000000" {
		t.Errorf("control: %q; want capabilities", got)
	}
}

// TestSignalsToGuest sends signals to each thread of the guest: by kill, the
// filter refuses it, but tgkill names threads, and in an ordinary user's sandbox
// the guest has the same uid.
func TestSignalsToGuest(t *testing.T) { onSharedKernel(t, signalsToGuest) }

func signalsToGuest(t *testing.T, w *world) {
	sandbox := w.create(t, nil)
	prog := w.program(t, sandbox.ID)
	for _, user := range sandbox.Identities {
		r := w.exec(t, sandbox.ID, user, prog, roleProbe, "signal threads of 1")
		var asked, urgent, denied int
		if _, err := fmt.Sscanf(r.stdout, "asked %d urgent %d denied %d", &asked, &urgent, &denied); err != nil {
			t.Fatalf("%s: %q %s", user, r.stdout, r.stderr)
		}
		t.Logf("%s: %s", user, r.stdout)
		// A look that finds no thread at all proves nothing.
		if asked != 0 || urgent+denied == 0 {
			t.Errorf("%s reached %d threads of the guest; %d took the runtime's signal and %d refused it", user, asked, urgent, denied)
		}
		// The runtime's own signal passes the filter. By uid or by Landlock no
		// thread is reached even so, but the one that forks, which is in the
		// domain of what it forks.
		most, same := 0, os.Geteuid() != 0 || w.isolation == "kubernetes" // commands have the guest's uid
		if same {
			most = 1
		}
		switch {
		case urgent <= most:
		case same && !scopesSignals():
			t.Logf("%d threads of the guest can be sent SIGURG: this kernel's Landlock has no scope for signals", urgent)
		default:
			t.Errorf("%s reached %d threads of the guest; want at most %d", user, urgent, most)
		}
	}
	// The control: a child signals this process, of the same uid.
	out, err := exec.Command("/proc/self/exe", roleProbe, fmt.Sprintf("signal threads of %d", os.Getpid())).Output()
	if err != nil || strings.HasPrefix(string(out), "asked 0 ") {
		t.Errorf("control: %q, %v", out, err)
	}
	w.alive(t, sandbox.ID)
	// Among themselves commands may: each is forked for a request of its own.
	s, err := w.Guests.StartExec(within(t), sandbox.ID, api.ExecRequest{Args: []string{"sleep", "1000"}, User: "user"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if r := w.exec(t, sandbox.ID, "user", "sh", "-c", fmt.Sprint("kill -TERM ", s.Exec().PID)); r.exec.Exit.Code != 0 {
		t.Errorf("one command cannot end another: %s", r.stderr)
	}
	if r := w.exec(t, sandbox.ID, "user", "sh", "-c", "sleep 100 & readlink /proc/$!/exe; kill $!"); !strings.Contains(r.stdout, "/") {
		t.Errorf("a command cannot look at its child: %q %s", r.stdout, r.stderr)
	}
}

// scopesSignals reports whether this kernel's Landlock has a scope for signals that
// is right for programs with threads.
func scopesSignals() bool {
	version, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	errata, _, _ := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_ERRATA)
	return e == 0 && version >= 6 && errata&2 != 0
}

// signalThreads requests each thread of a process whether it could be signalled,
// and sends it the signal that the Go runtime sends itself.
func signalThreads(pid int) int {
	asked, urgent, denied := 0, 0, 0
	for tid := pid; tid < pid+4096; tid++ {
		if unix.Tgkill(pid, tid, 0) == nil {
			asked++
		}
		switch unix.Tgkill(pid, tid, unix.SIGURG) {
		case nil:
			urgent++
		case unix.EPERM:
			denied++
		}
	}
	fmt.Println("asked", asked, "urgent", urgent, "denied", denied)
	return 0
}
