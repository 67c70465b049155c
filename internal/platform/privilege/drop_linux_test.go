package privilege

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// names are those of linux/capability.h.
var names = map[int]string{
	unix.CAP_LINUX_IMMUTABLE: "LINUX_IMMUTABLE", unix.CAP_NET_BROADCAST: "NET_BROADCAST", unix.CAP_NET_RAW: "NET_RAW",
	unix.CAP_IPC_OWNER: "IPC_OWNER", unix.CAP_SYS_MODULE: "SYS_MODULE", unix.CAP_SYS_RAWIO: "SYS_RAWIO", unix.CAP_SYS_PACCT: "SYS_PACCT",
	unix.CAP_SYS_BOOT: "SYS_BOOT", unix.CAP_SYS_TTY_CONFIG: "SYS_TTY_CONFIG", unix.CAP_LEASE: "LEASE", unix.CAP_AUDIT_WRITE: "AUDIT_WRITE",
	unix.CAP_AUDIT_CONTROL: "AUDIT_CONTROL", unix.CAP_AUDIT_READ: "AUDIT_READ", unix.CAP_MAC_OVERRIDE: "MAC_OVERRIDE",
	unix.CAP_MAC_ADMIN: "MAC_ADMIN", unix.CAP_SYSLOG: "SYSLOG", unix.CAP_WAKE_ALARM: "WAKE_ALARM", unix.CAP_BLOCK_SUSPEND: "BLOCK_SUSPEND",
	unix.CAP_PERFMON: "PERFMON", unix.CAP_BPF: "BPF", unix.CAP_CHECKPOINT_RESTORE: "CHECKPOINT_RESTORE",
}

// TestUnitDropsTheSame: systemd drops what the daemon drops.
func TestUnitDropsTheSame(t *testing.T) {
	unit, err := os.ReadFile("../../../packaging/systemd/hortus.service")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^CapabilityBoundingSet=~(.*)$`).FindSubmatch(unit)
	if line == nil {
		t.Fatal("the unit has no CapabilityBoundingSet")
	}
	var want []string
	for _, c := range dropped {
		want = append(want, "CAP_"+names[c])
	}
	got := strings.Fields(string(line[1]))
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("the unit drops %q, the daemon %q", got, want)
	}
}

// TestFilter follows the filter for every number of a call.
func TestFilter(t *testing.T) {
	const arch = unix.AUDIT_ARCH_X86_64
	program := filter(arch)
	for nr := range uint32(600) {
		want := uint32(unix.SECCOMP_RET_ALLOW)
		if slices.Contains(denied, uintptr(nr)) {
			want = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
		}
		if got := run(t, program, arch, nr); got != want {
			t.Errorf("call %d: %#x, want %#x", nr, got, want)
		}
	}
	const absent = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
	if got := run(t, program, arch, 1<<30|39); got != absent {
		t.Errorf("x32: %#x", got)
	}
	if got := run(t, program, unix.AUDIT_ARCH_I386, 20); got != absent {
		t.Errorf("i386: %#x", got)
	}
}

// run interprets a filter.
func run(t *testing.T, program []unix.SockFilter, arch, nr uint32) uint32 {
	t.Helper()
	var a uint32
	for pc := 0; pc < len(program); pc++ {
		switch in := program[pc]; in.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			a = map[uint32]uint32{0: nr, 4: arch}[in.K]
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			pc += jumpBy(a == in.K, in)
		case unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K:
			pc += jumpBy(a >= in.K, in)
		case unix.BPF_RET | unix.BPF_K:
			return in.K
		default:
			t.Fatalf("instruction %#x", in.Code)
		}
	}
	t.Fatal("the filter has no end")
	return 0
}

func jumpBy(yes bool, in unix.SockFilter) int {
	if yes {
		return int(in.Jt)
	}
	return int(in.Jf)
}
