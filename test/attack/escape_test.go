package attack

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"text/tabwriter"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail/initns"
	"hortus.dev/internal/backend/jail/keeper"
)

// hostLacks explains a control that a host refuses for reasons of its own: what
// its kernel was built without, or what its administrator switched off. Any other
// refusal means that the probe is wrong.
func hostLacks(p probe, answer string) string {
	errno, _, _ := strings.Cut(strings.TrimPrefix(answer, "refused: "), " ")
	switch {
	case errno == "ENOSYS":
		return "this kernel was built without it"
	case (errno == "EAFNOSUPPORT" || errno == "EPROTONOSUPPORT") && strings.Contains(p.name, "sock") || strings.Contains(p.name, "netlink") && errno == "EPROTONOSUPPORT":
		return "this kernel has no such family of sockets"
	case errno == "ENOTSUP" && p.name == "new network interface":
		return "this kernel has no dummy interfaces"
	case (errno == "ENOENT" || errno == "ENXIO" || errno == "ENODEV") && strings.HasPrefix(p.name, "open /"):
		return "this host has no such file"
	case errno == "EINVAL" && p.name == "unshare time":
		return "this kernel has no time namespaces"
	case strings.Contains(answer, "EOF") && p.name == "read /proc/keys":
		return "this user has no keys"
	case errno == "EPERM" && p.name == "io_uring_setup" && sysctl("kernel/io_uring_disabled") != "0":
		return "kernel.io_uring_disabled is set"
	case errno == "EPERM" && strings.HasPrefix(p.name, "clone user") && sysctl("kernel/apparmor_restrict_unprivileged_userns") == "1":
		return "AppArmor restricts user namespaces"
	case strings.HasPrefix(p.name, "i386") && faulted(answer):
		return noI386
	case errno == "EIO" && p.name == "TIOCSTI" && sysctl("dev/tty/legacy_tiocsti") == "0":
		return "dev.tty.legacy_tiocsti is 0"
	case p.name == "mount cgroup2" && errno == "EBUSY":
		return "the hierarchy is in use in another way"
	}
	return ""
}

// noI386 is why a host has no control of a call of the i386 table.
const noI386 = "this kernel has no i386 calls"

// faulted reports whether a program of Go ended with a SIGSEGV, by its error output. Its runtime
// words that in one of two ways.
func faulted(text string) bool {
	return strings.Contains(text, "SIGSEGV") || strings.Contains(text, "unexpected fault address")
}

func sysctl(name string) string {
	b, err := os.ReadFile("/proc/sys/" + name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// native runs a probe on the host with the wall missing. Root has namespaces of
// its own, so that the host is untouched.
func native(ctx context.Context, p probe) (string, error) {
	c := exec.CommandContext(ctx, "/proc/self/exe", roleProbe, p.name)
	c.Env = []string{}
	c.Dir = "/"
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	const own = unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWNET
	switch {
	case p.control == "any":
	case os.Geteuid() == 0:
		c.SysProcAttr.Cloneflags = own
		c.Env = []string{privateMounts + "=1"}
	default:
		c.SysProcAttr.Cloneflags = own | unix.CLONE_NEWUSER
		c.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		c.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
		c.Env = []string{privateMounts + "=1"}
	}
	var out, errOut bytes.Buffer
	c.Stdout, c.Stderr = &out, &errOut
	err := c.Run()
	if err != nil {
		head, _, _ := strings.Cut(errOut.String(), "\n")
		return fmt.Sprintf("%s %s %v", strings.TrimSpace(out.String()), head, err), nil
	}
	return strings.TrimSpace(out.String()), nil
}

// control runs a probe's control and gives a line for the table.
func control(t *testing.T, p probe) string {
	t.Helper()
	switch {
	case p.control == "none":
		return "none: " + p.why
	case p.control == "root" && os.Geteuid() != 0:
		return "needs root on the host; the run as root has it"
	}
	answer, err := native(within(t), p)
	if err != nil {
		t.Errorf("%s: control: %v", p.name, err)
		return err.Error()
	}
	if answer == "got through" {
		return answer
	}
	if why := hostLacks(p, answer); why != "" {
		return "none: " + why
	}
	t.Errorf("%s: the control did not get through, so the probe proves nothing: %s", p.name, answer)
	return answer
}

func TestEscapes(t *testing.T) {
	controls := map[string]string{}
	for _, p := range probes() {
		controls[p.name] = control(t, p)
	}
	onEachAtOnce(t, func(t *testing.T, w *world) { escapes(t, w, controls) })
}

// escapes tries every probe inside; lines says how each went on the host.
func escapes(t *testing.T, w *world, lines map[string]string) {
	sandbox := w.create(t, nil)
	prog := w.program(t, sandbox.ID)
	var table strings.Builder
	tw := tabwriter.NewWriter(&table, 2, 8, 2, ' ', 0)
	fmt.Fprint(tw, "probe\tcontrol on the host")
	for _, user := range sandbox.Identities {
		fmt.Fprintf(tw, "\t%s inside", user)
	}
	fmt.Fprintln(tw)
	controls, through := 0, map[string]bool{}
	allowed := map[string]map[string]string{"gvisor": ownKernel, "microvm": machineKernel, "kubernetes": podFiles}[w.isolation]
	for _, p := range probes() {
		line := lines[p.name]
		if line == "got through" {
			controls++
		}
		fmt.Fprintf(tw, "%s\t%s", p.name, line)
		for _, user := range sandbox.Identities {
			r := w.exec(t, sandbox.ID, user, prog, roleProbe, p.name)
			answer := strings.TrimSpace(r.stdout)
			if _, own := allowed[p.name]; own && strings.HasPrefix(answer, "got through") {
				through[p.name] = true
				fmt.Fprint(tw, "\tgot through: "+allowed[p.name])
				continue
			}
			if strings.HasPrefix(p.name, "i386") && r.exec.Exit.Signal == "SIGSYS" {
				answer = "refused: killed by SIGSYS"
			} else if line == "none: "+noI386 && r.exec.Exit.Code != 0 && faulted(r.stderr) {
				answer = "refused: as on the host, " + noI386
			} else if r.exec.Exit.Code != 0 || !strings.HasPrefix(answer, "refused:") {
				t.Errorf("%s as %s: %q, %+v; want it refused\n%.500s", p.name, user, answer, r.exec.Exit, r.stderr)
			}
			if p.name == "clone3" && w.isolation == "container" && !strings.Contains(answer, "ENOSYS") {
				t.Errorf("clone3 as %s: %q; C libraries fall back after ENOSYS alone", user, answer)
			}
			fmt.Fprintf(tw, "\t%s", strings.TrimPrefix(answer, "refused: "))
		}
		fmt.Fprintln(tw)
	}
	tw.Flush()
	t.Logf("%d probes, %d with a control that got through here\n%s", len(probes()), controls, table.String())
	w.alive(t, sandbox.ID)
	for name := range allowed {
		if !through[name] {
			t.Errorf("%s is refused: it is not to be listed among what its own kernel allows", name)
		}
	}
	// A wall that refuses everything proves nothing either.
	for _, user := range sandbox.Identities {
		if r := w.exec(t, sandbox.ID, user, prog, roleProbe, "memfd and exec"); strings.TrimSpace(r.stdout) != "got through" {
			t.Errorf("a program in memory does not run as %s: %q %q", user, r.stdout, r.stderr)
		}
	}
}

// machineKernel are the probes that the kernel of a virtual machine lets through. It has no network but its own loopback.
var machineKernel = map[string]string{
	"clone3":         "a child, as of fork; namespaces have the checks of clone",
	"kill PID 1":     "SIGCONT, which does nothing to a guest that runs",
	"udplite socket": "its own loopback",
	"mptcp socket":   "its own loopback",
	"tcp socket with another protocol above it": "its own loopback",
	"netfilter netlink":                         "nothing: it has no right to change its own kernel's rules",
	"personality":                               "the program itself",
	"no address randomisation":                  "the program itself",
	"TIOCSETD":                                  "a terminal of its own kernel's",
	"get_robust_list":                           "its own",
	"ioprio_set":                                "its own processes",
	"setgroups to the guest's":                  "the guest's group owns nothing",
	"kcmp":                                      "its own processes",
	"ptrace of a child":                         "its own processes",
	"ptrace traceme":                            "its own processes",
	"process_vm_readv of a child":               "its own processes",
	"pidfd_getfd of a child":                    "its own processes",
	"io_uring_setup":                            "its own kernel's",
	"io_setup":                                  "its own kernel's",
	"userfaultfd":                               "its own kernel's",
	"vmsplice":                                  "its own kernel's",
	"tee":                                       "its own kernel's",
	"i386 getpid":                               "its own kernel's",
	"i386 mount":                                "its own kernel's table of calls, with the checks of mount",
	"add_key":                                   "keyrings of its own kernel's",
	"keyctl":                                    "keyrings of its own kernel's",
	"message queue of System V":                 "memory that counts",
	"message queue of POSIX":                    "memory that counts",
}

// ownKernel are the probes that gVisor's kernel, the sandbox's own, lets through, with what
// that comes to. None of them reaches the host's kernel, and each acts only on what
// the same user inside could act on anyway.
var ownKernel = map[string]string{
	"clone mount":                          "a copy of its own view of files, without the right to mount in it",
	"unshare time":                         "nothing: there are no such namespaces, and the flag is not looked at",
	"ptrace of a child":                    "its own processes",
	"process_vm_readv of a child":          "its own processes",
	"pidfd_getfd of a child":               "its own processes",
	"setgroups to the guest's":             "the guest's group owns nothing",
	"message queue of System V":            "memory that counts",
	"message queue of POSIX":               "memory that counts",
	"io_setup":                             "its own kernel's",
	"tee":                                  "its own kernel's",
	"get_robust_list":                      "its own",
	"ioprio_set":                           "nothing",
	"clone3":                               "it has the checks of clone",
	"kill PID 1":                           "SIGCONT, which does nothing to a guest that runs",
	"keyctl":                               "keyrings of its own kernel's",
	"open /proc/sysrq-trigger for writing": "nothing: no key is known",
	"open /dev/fuse":                       "a file system that it may not mount",
	"tcp socket with another protocol above it": "nothing: its own kernel has none, whatever the name",
	"list /sys/class": "what its own kernel makes up",
}

// TestSetuidFile plants a program that would make anybody root.
func TestSetuidFile(t *testing.T) { onEach(t, setuidFile) }

func setuidFile(t *testing.T, w *world) {
	w.needs(t, api.CapRootIdentity)
	sandbox := w.create(t, nil)
	r := w.exec(t, sandbox.ID, "root", "sh", "-c", "cp -L $(command -v id) /tmp/id && chown 0:0 /tmp/id && chmod 6755 /tmp/id && stat -c %a /tmp/id")
	if r.stdout != "6755\n" {
		t.Fatalf("plant: %+v", r)
	}
	if r := w.exec(t, sandbox.ID, "user", "/tmp/id", "-u"); r.stdout != "1000\n" {
		t.Errorf("a setuid file of root's inside made %q of user", r.stdout)
	}
	// The control: the same file on the host, where nothing forbids it.
	if os.Geteuid() != 0 {
		t.Log("no control: the run as root has it")
		return
	}
	dir, err := os.MkdirTemp("", "setuid-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	id, err := exec.LookPath("id")
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(id)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "id")
	for _, err := range []error{os.Chmod(dir, 0o755), os.WriteFile(file, b, 0o755), os.Chmod(file, 0o755|os.ModeSetuid)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	c := exec.Command(file, "-u")
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 1000, Gid: 1000}}
	out, err := c.Output()
	if got := strings.TrimSpace(string(out)); err != nil || got != "0" {
		var fs unix.Statfs_t
		if unix.Statfs(dir, &fs) == nil && fs.Flags&unix.ST_NOSUID != 0 {
			t.Logf("no control: %s is mounted nosuid here", dir)
		} else {
			t.Errorf("control: the file made %q, %v; want 0", got, err)
		}
	}
}

// TestProcessesOfOthers reads what another user's process inside holds.
func TestProcessesOfOthers(t *testing.T) { onEach(t, processesOfOthers) }

func processesOfOthers(t *testing.T, w *world) {
	w.needs(t, api.CapRootIdentity)
	sandbox := w.create(t, nil)
	s, err := w.Guests.StartExec(within(t), sandbox.ID, api.ExecRequest{Args: []string{"sleep", "1000"}, User: "root", Env: map[string]string{"SECRET": "of root"}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	pid := s.Exec().PID
	script := fmt.Sprintf(`for f in mem environ cmdline maps status; do (: < /proc/%d/$f) 2>/dev/null && echo opened $f; done; kill -0 %d 2>/dev/null && echo signalled; exit 0`, pid, pid)
	// A kernel of its own, and the /proc of an engine, show who else runs what, and no more.
	const listed = "opened cmdline\nopened status\n"
	seen := map[string]string{"gvisor": listed, "docker": listed, "microvm": listed}
	if r := w.exec(t, sandbox.ID, "user", "sh", "-c", script); r.stdout != seen[w.isolation] {
		t.Errorf("user reached a process of root's: %q", r.stdout)
	}
	// The control: root reaches its own.
	if r := w.exec(t, sandbox.ID, "root", "sh", "-c", script); !strings.Contains(r.stdout, "opened environ\n") || !strings.Contains(r.stdout, "signalled\n") {
		t.Errorf("control: root does not reach its own process: %q", r.stdout)
	}
}

// TestHostSockets dials unix sockets that anybody on the host may dial.
func TestHostSockets(t *testing.T) { onEachAtOnce(t, hostSockets) }

func hostSockets(t *testing.T, w *world) {
	sandbox := w.create(t, nil)
	prog := w.program(t, sandbox.ID)
	dir, err := os.MkdirTemp("", "sock-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	check(t, "chmod", os.Chmod(dir, 0o755))
	addrs := []string{"@hortus-attack-" + string(sandbox.ID), filepath.Join(dir, "s"), w.server}
	for _, addr := range addrs[:2] {
		l, err := net.Listen("unix", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if addr[0] == '/' {
			check(t, "chmod", os.Chmod(addr, 0o777))
		}
	}
	// The guest's own link must be out of reach of what it runs, too.
	addrs = append(addrs, filepath.Join(w.run, string(sandbox.ID), initns.SocketName), filepath.Join(w.run, string(sandbox.ID), keeper.SocketName),
		keeper.StateDir+"/runsc-"+string(sandbox.ID)+".sock", "/runsc-"+string(sandbox.ID)+".sock", "@runsc-sandbox."+string(sandbox.ID))
	for i, addr := range addrs {
		if i < 3 {
			if out, err := exec.Command("/proc/self/exe", roleProbe, "dial "+addr).Output(); err != nil || strings.TrimSpace(string(out)) != "got through" {
				t.Errorf("control: %s cannot be dialled on the host: %q, %v", addr, out, err)
			}
		}
		for _, user := range sandbox.Identities {
			for _, path := range []string{addr, "/proc/1/root" + addr} {
				if addr[0] == '@' && path != addr {
					continue
				}
				if r := w.exec(t, sandbox.ID, user, prog, roleProbe, "dial "+path); !strings.HasPrefix(r.stdout, "refused:") {
					t.Errorf("%s dialled %s: %q", user, path, r.stdout)
				}
			}
		}
	}
}
