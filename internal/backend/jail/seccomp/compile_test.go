package seccomp

import (
	"encoding/binary"
	"runtime"
	"testing"

	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// machine runs the program as the kernel would, over the words of a call.
type machine struct {
	t    *testing.T
	vm   *bpf.VM
	info *arch.Info
}

func newMachine(t *testing.T, o Options) *machine {
	t.Helper()
	return machineFor(t, o, runtime.GOARCH)
}

func machineFor(t *testing.T, o Options, goarch string) *machine {
	t.Helper()
	info, err := arch.GetInfo(goarch)
	if err != nil {
		t.Fatal(err)
	}
	p, err := policy(o, goarch)
	if err != nil {
		t.Fatal(err)
	}
	prog, err := p.program(info)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d instructions", len(prog))
	vm, err := bpf.NewVM(prog)
	if err != nil {
		t.Fatal(err)
	}
	return &machine{t, vm, info}
}

func (m *machine) verdict(archID, nr uint32, args ...uint64) uint32 {
	m.t.Helper()
	// The machine of x/net reads big-endian words; the offsets stay.
	data := make([]byte, 64)
	binary.BigEndian.PutUint32(data[offNumber:], nr)
	binary.BigEndian.PutUint32(data[offArch:], archID)
	for i, a := range args {
		low := argOffset(i)
		high := uint32(offArgs+8*i)*2 + 4 - low
		binary.BigEndian.PutUint32(data[low:], uint32(a))
		binary.BigEndian.PutUint32(data[high:], uint32(a>>32))
	}
	v, err := m.vm.Run(data)
	if err != nil {
		m.t.Fatal(err)
	}
	return uint32(v)
}

func (m *machine) named(name string, args ...uint64) uint32 {
	m.t.Helper()
	nr, ok := number(m.info, name)
	if !ok {
		m.t.Skipf("%s has no call %s", m.info.Name, name)
	}
	return m.verdict(uint32(m.info.ID), nr, args...)
}

const (
	einval = retErrno | uint32(unix.EINVAL)
	eperm  = retErrno | uint32(unix.EPERM)
	enosys = retErrno | uint32(unix.ENOSYS)
	done   = retErrno // of nothing: the call is answered as done
	noAF   = retErrno | uint32(unix.EAFNOSUPPORT)
	noProt = retErrno | uint32(unix.EPROTONOSUPPORT)
	high   = uint64(1) << 32 // a bit that the kernel does not look at
)

// smcProtocol is SMC's number among the protocols of IPv4, which package unix lacks.
const smcProtocol = 256

func TestVerdicts(t *testing.T) {
	m := newMachine(t, Options{GuestUID: 65533, GuestGID: 65533})
	for _, c := range []struct {
		name string
		args []uint64
		want uint32
	}{
		{"read", nil, retAllow},
		{"execveat", nil, retAllow},
		{"landlock_restrict_self", nil, retAllow},
		{"clone", []uint64{unix.CLONE_VM | unix.CLONE_THREAD}, retAllow},
		{"clone", []uint64{unix.CLONE_NEWUSER}, eperm},
		{"clone", []uint64{unix.CLONE_NEWNET | uint64(unix.SIGCHLD) | high}, eperm},
		{"clone3", nil, enosys},
		{"unshare", []uint64{unix.CLONE_NEWUSER}, eperm},
		{"setns", nil, eperm},
		{"mount", nil, eperm}, {"umount2", nil, eperm}, {"pivot_root", nil, eperm}, {"chroot", nil, eperm},
		{"fsopen", nil, eperm}, {"fsmount", nil, eperm}, {"move_mount", nil, eperm}, {"open_tree", nil, eperm}, {"mount_setattr", nil, eperm},
		{"ptrace", nil, eperm}, {"process_vm_readv", nil, eperm}, {"process_vm_writev", nil, eperm}, {"kcmp", nil, eperm},
		{"keyctl", nil, eperm}, {"add_key", nil, eperm}, {"request_key", nil, eperm},
		{"bpf", nil, eperm}, {"userfaultfd", nil, eperm}, {"perf_event_open", nil, eperm},
		{"io_uring_setup", nil, enosys}, {"io_uring_enter", nil, enosys},
		{"kexec_load", nil, eperm}, {"init_module", nil, eperm}, {"finit_module", nil, eperm}, {"reboot", nil, eperm},
		{"open_by_handle_at", nil, eperm}, {"name_to_handle_at", nil, eperm}, {"fanotify_init", nil, eperm},
		{"settimeofday", nil, eperm}, {"clock_settime", nil, eperm}, {"swapon", nil, eperm}, {"quotactl", nil, eperm}, {"syslog", nil, eperm},
		{"acct", nil, eperm}, {"sethostname", nil, eperm}, {"setdomainname", nil, eperm}, {"iopl", nil, eperm}, {"vhangup", nil, eperm},
		{"ppoll", []uint64{0, 4095}, retAllow}, {"ppoll", []uint64{0, 4096}, einval}, {"ppoll", []uint64{0, 4095 | high}, retAllow},
		{"pselect6", []uint64{1024}, retAllow}, {"pselect6", []uint64{65536}, einval},
		{"socket", []uint64{unix.AF_UNIX, unix.SOCK_STREAM, 0}, retAllow},
		{"socket", []uint64{unix.AF_INET6, unix.SOCK_STREAM, 0}, retAllow},
		{"socket", []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE}, retAllow},
		{"socket", []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT}, noAF},
		{"socket", []uint64{unix.AF_VSOCK, unix.SOCK_STREAM, 0}, noAF},
		{"socket", []uint64{unix.AF_VSOCK | high, unix.SOCK_STREAM, 0}, noAF},
		{"socket", []uint64{unix.AF_ALG, unix.SOCK_SEQPACKET, 0}, noAF},
		{"socket", []uint64{unix.AF_PACKET, unix.SOCK_RAW, 0}, noAF},
		{"socket", []uint64{unix.AF_INET, unix.SOCK_STREAM | unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK, unix.IPPROTO_TCP}, retAllow},
		{"socket", []uint64{unix.AF_INET6, unix.SOCK_DGRAM | unix.SOCK_CLOEXEC, unix.IPPROTO_UDP}, retAllow},
		{"socket", []uint64{unix.AF_INET, unix.SOCK_DGRAM, 0}, retAllow},
		{"socket", []uint64{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP}, noProt},
		{"socket", []uint64{unix.AF_INET6, unix.SOCK_STREAM | high, unix.IPPROTO_SCTP}, noProt},
		{"socket", []uint64{unix.AF_INET, unix.SOCK_STREAM, smcProtocol}, noProt},
		{"socket", []uint64{unix.AF_INET, unix.SOCK_SEQPACKET, 0}, noProt}, // SCTP by its type
		{"socket", []uint64{unix.AF_INET, unix.SOCK_DCCP, 0}, noProt},
		{"socket", []uint64{unix.AF_INET6, unix.SOCK_DGRAM, unix.IPPROTO_UDPLITE}, noProt},
		{"socket", []uint64{unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP}, noProt},
		{"socket", []uint64{unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_TCP}, noProt},
		{"socket", []uint64{unix.AF_INET, unix.SOCK_RAW | unix.SOCK_CLOEXEC, unix.IPPROTO_ICMP}, eperm},
		{"socket", []uint64{unix.AF_SMC, unix.SOCK_STREAM, 0}, noAF},
		{"setsockopt", []uint64{3, unix.SOL_TCP, unix.TCP_ULP}, retErrno | uint32(unix.ENOPROTOOPT)},
		{"setsockopt", []uint64{3, unix.SOL_TCP, unix.TCP_NODELAY}, retAllow},
		{"setsockopt", []uint64{3, unix.SOL_SOCKET, unix.TCP_ULP}, retAllow},
		{"ioctl", []uint64{0, unix.TCGETS}, retAllow},
		{"ioctl", []uint64{0, unix.TIOCSTI}, eperm},
		{"ioctl", []uint64{0, unix.TIOCSTI | high}, eperm},
		{"ioctl", []uint64{0, unix.TIOCSETD}, eperm},
		{"personality", []uint64{0xffffffff}, retAllow},
		{"personality", []uint64{0x0040000}, eperm}, // ADDR_NO_RANDOMIZE
		{"personality", []uint64{0x0400000}, eperm}, // READ_IMPLIES_EXEC
		{"setuid", []uint64{1000}, retAllow},
		{"setuid", []uint64{65533}, eperm},
		{"setuid", []uint64{65533 | high}, eperm},
		{"setresuid", []uint64{1000, 1000, 65533}, eperm},
		{"setresuid", []uint64{1000, 65533, 1000}, eperm},
		{"setresuid", []uint64{^uint64(0), ^uint64(0), 1000}, retAllow},
		{"setresgid", []uint64{65533, 1, 1}, eperm},
		{"setfsuid", []uint64{65533}, retAllow}, // gives no right to signal, and the guest goes back by it
		{"prlimit64", []uint64{0}, retAllow},
		{"prlimit64", []uint64{1}, eperm},
		{"prlimit64", []uint64{0, unix.RLIMIT_CORE, 0}, retAllow}, // it may be read
		{"prlimit64", []uint64{0, unix.RLIMIT_CORE, 0x7fff0000}, done},
		{"prlimit64", []uint64{0, unix.RLIMIT_CORE, high}, done}, // a pointer whose lower half is empty
		{"prlimit64", []uint64{high, high | unix.RLIMIT_CORE, 0x7fff0000}, done},
		{"prlimit64", []uint64{0, unix.RLIMIT_NOFILE, 0x7fff0000}, retAllow},
		{"prlimit64", []uint64{1, unix.RLIMIT_CORE, 0x7fff0000}, eperm},
		{"setrlimit", []uint64{unix.RLIMIT_CORE, 0x7fff0000}, done},
		{"setrlimit", []uint64{unix.RLIMIT_NOFILE, 0x7fff0000}, retAllow},
		{"kill", []uint64{1, 9}, eperm},
		{"kill", []uint64{7, 9}, retAllow},
		{"tgkill", []uint64{1, 5, 15}, eperm},
		{"tgkill", []uint64{high | 1, 5, 0}, eperm},
		{"tgkill", []uint64{1, 5, uint64(unix.SIGURG)}, retAllow},
		{"tgkill", []uint64{7, 7, 15}, retAllow},
		{"mknodat", []uint64{0, 0, unix.S_IFIFO | 0o600, 0}, retAllow},
		{"mknodat", []uint64{0, 0, unix.S_IFCHR | 0o600, 0}, eperm},
		{"mknodat", []uint64{0, 0, unix.S_IFCHR | 0o600, 0x103}, eperm},
		{"mknodat", []uint64{0, 0, unix.S_IFBLK | 0o600, 0}, eperm},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := &machine{t, m.vm, m.info}
			if got := m.named(c.name, c.args...); got != c.want {
				t.Errorf("%s %x: %#x, want %#x", c.name, c.args, got, c.want)
			}
		})
	}
}

func TestForeign(t *testing.T) {
	m := newMachine(t, Options{GuestUID: -1, GuestGID: -1})
	if got := m.verdict(0x40000003, 1); got != retKill { // i386
		t.Errorf("a call of another architecture: %#x", got)
	}
	if got := m.verdict(uint32(m.info.ID), x32Bit|1); got != enosys {
		t.Errorf("a call by an x32 number: %#x", got)
	}
	if got := m.verdict(uint32(m.info.ID), 5000); got != enosys {
		t.Errorf("a call that nobody knows: %#x", got)
	}
	if got := m.named("setuid", 65533); got != retAllow {
		t.Errorf("without an own uid of the guest setuid gives %#x", got)
	}
}

func TestCompile(t *testing.T) {
	p, err := Default(Options{GuestUID: 1, GuestGID: 1})
	if err != nil {
		t.Fatal(err)
	}
	b, err := p.Compile()
	if err != nil {
		t.Fatal(err)
	}
	if len(b) == 0 || len(b)%8 != 0 {
		t.Fatalf("%d bytes", len(b))
	}
}

// TestRemovals holds every removed call to its answer.
func TestRemovals(t *testing.T) {
	for _, goarch := range architectures {
		m := machineFor(t, Options{GuestUID: -1, GuestGID: -1}, goarch)
		for _, r := range removals {
			for _, name := range r.names {
				nr, ok := number(m.info, name)
				if !ok {
					continue
				}
				if got := m.verdict(uint32(m.info.ID), nr); got != retErrno|uint32(r.errno) {
					t.Errorf("%s: %s: %#x, want %v", goarch, name, got, r.errno)
				}
			}
		}
	}
}
