package jail_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// childMain runs what a test wants inside a sandbox, or in a process of its own.
func childMain(kind string) int {
	switch kind {
	case "syscalls":
		return trySyscalls()
	case "terminals":
		return countTerminals()
	case "starter":
		return starterMain()
	case "leaver":
		return leaverMain()
	}
	fmt.Fprintln(os.Stderr, "unknown child", kind)
	return 1
}

type attempt struct {
	name string
	nr   uintptr
	args [6]uintptr
}

// attempts are calls that must fail inside, with harmless arguments.
func attempts() []attempt {
	const nowhere = 0 // a null pointer
	a := []attempt{
		{"clone newuser", unix.SYS_CLONE, [6]uintptr{unix.CLONE_NEWUSER | uintptr(unix.SIGCHLD)}},
		{"clone3", unix.SYS_CLONE3, [6]uintptr{nowhere, 0}},
		{"unshare", unix.SYS_UNSHARE, [6]uintptr{unix.CLONE_NEWUSER}},
		{"setns", unix.SYS_SETNS, [6]uintptr{0, 0}},
		{"mount", unix.SYS_MOUNT, [6]uintptr{}},
		{"umount2", unix.SYS_UMOUNT2, [6]uintptr{}},
		{"pivot_root", unix.SYS_PIVOT_ROOT, [6]uintptr{}},
		{"chroot", unix.SYS_CHROOT, [6]uintptr{}},
		{"fsopen", unix.SYS_FSOPEN, [6]uintptr{}},
		{"open_tree", unix.SYS_OPEN_TREE, [6]uintptr{}},
		{"move_mount", unix.SYS_MOVE_MOUNT, [6]uintptr{}},
		{"mount_setattr", unix.SYS_MOUNT_SETATTR, [6]uintptr{}},
		{"ptrace", unix.SYS_PTRACE, [6]uintptr{unix.PTRACE_ATTACH, 1}},
		{"ptrace traceme", unix.SYS_PTRACE, [6]uintptr{0}},
		{"process_vm_readv", unix.SYS_PROCESS_VM_READV, [6]uintptr{1}},
		{"process_vm_writev", unix.SYS_PROCESS_VM_WRITEV, [6]uintptr{1}},
		{"keyctl", unix.SYS_KEYCTL, [6]uintptr{unix.KEYCTL_GET_KEYRING_ID, ^uintptr(2)}},
		{"add_key", unix.SYS_ADD_KEY, [6]uintptr{}},
		{"request_key", unix.SYS_REQUEST_KEY, [6]uintptr{}},
		{"bpf", unix.SYS_BPF, [6]uintptr{}},
		{"userfaultfd", unix.SYS_USERFAULTFD, [6]uintptr{1}},
		{"perf_event_open", unix.SYS_PERF_EVENT_OPEN, [6]uintptr{}},
		{"io_uring_setup", unix.SYS_IO_URING_SETUP, [6]uintptr{}},
		{"io_uring_enter", unix.SYS_IO_URING_ENTER, [6]uintptr{}},
		{"io_uring_register", unix.SYS_IO_URING_REGISTER, [6]uintptr{}},
		{"kexec_load", unix.SYS_KEXEC_LOAD, [6]uintptr{}},
		{"init_module", unix.SYS_INIT_MODULE, [6]uintptr{}},
		{"delete_module", unix.SYS_DELETE_MODULE, [6]uintptr{}},
		{"reboot", unix.SYS_REBOOT, [6]uintptr{}},
		{"open_by_handle_at", unix.SYS_OPEN_BY_HANDLE_AT, [6]uintptr{}},
		{"name_to_handle_at", unix.SYS_NAME_TO_HANDLE_AT, [6]uintptr{}},
		{"fanotify_init", unix.SYS_FANOTIFY_INIT, [6]uintptr{}},
		{"settimeofday", unix.SYS_SETTIMEOFDAY, [6]uintptr{}},
		{"clock_settime", unix.SYS_CLOCK_SETTIME, [6]uintptr{}},
		{"clock_adjtime", unix.SYS_CLOCK_ADJTIME, [6]uintptr{}},
		{"swapon", unix.SYS_SWAPON, [6]uintptr{}},
		{"quotactl", unix.SYS_QUOTACTL, [6]uintptr{}},
		{"syslog", unix.SYS_SYSLOG, [6]uintptr{}},
		{"acct", unix.SYS_ACCT, [6]uintptr{}},
		{"sethostname", unix.SYS_SETHOSTNAME, [6]uintptr{}},
		{"setdomainname", unix.SYS_SETDOMAINNAME, [6]uintptr{}},
		{"kcmp", unix.SYS_KCMP, [6]uintptr{1, 1}},
		{"pidfd_getfd", unix.SYS_PIDFD_GETFD, [6]uintptr{}},
		{"process_madvise", unix.SYS_PROCESS_MADVISE, [6]uintptr{}},
		{"migrate_pages", unix.SYS_MIGRATE_PAGES, [6]uintptr{1}},
		{"move_pages", unix.SYS_MOVE_PAGES, [6]uintptr{1}},
		{"lookup_dcookie", unix.SYS_LOOKUP_DCOOKIE, [6]uintptr{}},
		{"vhangup", unix.SYS_VHANGUP, [6]uintptr{}},
		{"personality read-implies-exec", unix.SYS_PERSONALITY, [6]uintptr{0x0400000}},
		{"personality no-randomisation", unix.SYS_PERSONALITY, [6]uintptr{0x0040000}},
		{"kill the guest", unix.SYS_KILL, [6]uintptr{1, uintptr(unix.SIGKILL)}},
		{"signal the guest", unix.SYS_KILL, [6]uintptr{1, uintptr(unix.SIGQUIT)}},
		{"prlimit of the guest", unix.SYS_PRLIMIT64, [6]uintptr{1, unix.RLIMIT_NOFILE}},
		{"pidfd of the guest", unix.SYS_PIDFD_OPEN, [6]uintptr{1}},
		{"scheduling of the guest", unix.SYS_SCHED_SETAFFINITY, [6]uintptr{1}},
		{"TIOCSTI", unix.SYS_IOCTL, [6]uintptr{0, unix.TIOCSTI}},
		{"seccomp strict off", unix.SYS_PRCTL, [6]uintptr{unix.PR_SET_NO_NEW_PRIVS, 0}},
		{"bounding", unix.SYS_PRCTL, [6]uintptr{unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, unix.CAP_SYS_ADMIN}},
		{"x32 getpid", 0x40000000 | 39, [6]uintptr{}},
	}
	for _, af := range []struct {
		name  string
		n     uintptr
		proto uintptr
	}{{"vsock", unix.AF_VSOCK, 0}, {"alg", unix.AF_ALG, 0}, {"packet", unix.AF_PACKET, 0}, {"bluetooth", unix.AF_BLUETOOTH, 0}, {"key", unix.AF_KEY, 2},
		{"can", unix.AF_CAN, 1}, {"tipc", unix.AF_TIPC, 0}, {"xdp", unix.AF_XDP, 0}, {"audit", unix.AF_NETLINK, unix.NETLINK_AUDIT}, {"netfilter", unix.AF_NETLINK, unix.NETLINK_NETFILTER}} {
		a = append(a, attempt{"socket " + af.name, unix.SYS_SOCKET, [6]uintptr{af.n, unix.SOCK_RAW, af.proto}})
	}
	a = append(a, attempt{"socket raw inet", unix.SYS_SOCKET, [6]uintptr{unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP}})
	if os.Getuid() == 0 { // root inside: to the guest's identity
		for _, c := range []struct {
			name string
			nr   uintptr
			n    int
		}{{"setuid", unix.SYS_SETUID, 1}, {"setreuid", unix.SYS_SETREUID, 2}, {"setresuid", unix.SYS_SETRESUID, 3}, {"setgid", unix.SYS_SETGID, 1}, {"setregid", unix.SYS_SETREGID, 2}, {"setresgid", unix.SYS_SETRESGID, 3}} {
			a = append(a, attempt{c.name + " guest", c.nr, [6]uintptr{65533, 65533, 65533}}, attempt{c.name + " guest, high bit", c.nr, [6]uintptr{1<<32 | 65533, 65533, 65533}})
		}
	}
	return a
}

func trySyscalls() int {
	for _, a := range attempts() {
		_, _, e := unix.RawSyscall6(a.nr, a.args[0], a.args[1], a.args[2], a.args[3], a.args[4], a.args[5])
		switch e {
		case unix.EPERM, unix.ENOSYS, unix.EAFNOSUPPORT:
		case 0:
			fmt.Println(a.name, "succeeded")
		default:
			fmt.Println(a.name, "reached the kernel:", e)
		}
	}
	fmt.Println("tried", len(attempts()))
	return 0
}

// Every refused call is really made from inside.
func TestRefusedCalls(t *testing.T) {
	e := newEnv(t)
	m, _ := e.start(t)
	users := []string{"user"}
	if isRoot() {
		users = append(users, "root")
	}
	for _, u := range users {
		rep := ask(t, m, request{User: u, Func: "syscalls"})
		if rep.Code != 0 {
			t.Fatalf("as %s: %+v", u, rep)
		}
		lines := strings.Split(strings.TrimSpace(rep.Out), "\n")
		for _, l := range lines[:len(lines)-1] {
			// What the kernel itself refuses with another answer.
			if l == "seccomp strict off reached the kernel: invalid argument" {
				continue
			}
			t.Errorf("as %s: %s", u, l)
		}
		t.Logf("as %s: %s", u, lines[len(lines)-1])
	}
	sh(t, m, "user", "true")
}
