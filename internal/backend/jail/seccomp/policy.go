package seccomp

import (
	"runtime"
	"slices"

	"golang.org/x/sys/unix"
)

// Options configure a policy.
type Options struct {
	// GuestUID and GuestGID are the guest's ids, to which no process may change; negative if
	// the guest has none of its own.
	GuestUID, GuestGID int
}

const all = ^uint32(0)

func is(arg int, val uint32) test    { return test{arg: arg, mask: all, op: equal, val: val} }
func isNot(arg int, val uint32) test { return test{arg: arg, mask: all, op: notEqual, val: val} }

// Default is the policy of a sandbox on the architecture of this binary: Docker's default profile
// for a process without capabilities, without the calls in removals, and with the argument
// restrictions in narrowed.
func Default(o Options) (*Policy, error) { return policy(o, runtime.GOARCH) }

// Programs are the compiled default policies of the architectures that have one, by their names in Go, for a sandbox that
// starts somewhere else. All of them have the byte order of this host.
func Programs(o Options) (map[string][]byte, error) {
	out := map[string][]byte{}
	for _, goarch := range []string{"amd64", "arm64"} {
		p, err := policy(o, goarch)
		if err != nil {
			return nil, err
		}
		if out[goarch], err = p.Compile(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func policy(o Options, goarch string) (*Policy, error) {
	docker, err := readDocker(goarch)
	if err != nil {
		return nil, err
	}
	p := &Policy{goarch: goarch, nosys: slices.Concat(docker.nosys, absent)}
	removed := map[string]bool{}
	for _, r := range removals {
		for _, name := range r.names {
			removed[name] = true
		}
		if r.errno == unix.ENOSYS {
			p.nosys = append(p.nosys, r.names...)
		}
	}
	closer := map[string]rule{}
	for _, r := range narrowed(o) {
		closer[r.name] = r
	}
	for _, name := range docker.names {
		if removed[name] {
			continue
		}
		r, ok := closer[name]
		if !ok {
			if r, err = docker.rule(name); err != nil {
				return nil, err
			}
		}
		p.rules = append(p.rules, r)
	}
	return p, nil
}

// narrowed are the calls that are allowed with fewer arguments than in Docker's profile.
func narrowed(o Options) []rule {
	out := sockets()
	out = append(out,
		// TIOCSTI and TIOCLINUX inject input into a terminal; TIOCSETD loads line
		// disciplines.
		rule{name: "ioctl", anyOf: [][]test{{isNot(1, unix.TIOCSTI), isNot(1, tiocLinux), isNot(1, unix.TIOCSETD)}}, otherwise: unix.EPERM},
		// The default personality, and the query of the current one.
		rule{name: "personality", anyOf: [][]test{{is(0, 0)}, {is(0, 0xffffffff)}}, otherwise: unix.EPERM},
		// Only the stage before the guest sets what follows.
		rule{name: "prctl", anyOf: [][]test{{isNot(0, unix.PR_SET_MM), isNot(0, unix.PR_SET_PTRACER)}}, otherwise: unix.EPERM},
		// nodev and the user namespace refuse a device node too.
		rule{name: "mknod", anyOf: modes(1), otherwise: unix.EPERM},
		rule{name: "mknodat", anyOf: modes(2), otherwise: unix.EPERM},
	)
	// Core dumps are disabled by a limit of 1 byte, with which the kernel does not run a
	// handler either. That must not change: with a limit of 0 it would run the host's
	// handler, as root of the host, on the memory of the crashed process. Programs that
	// protect secrets set the limit to 0 and fail if they cannot, so the call pretends to
	// succeed. The limit may be read.
	out = append(out,
		rule{name: "prlimit64", otherwise: unix.EPERM, anyOf: [][]test{{isNot(0, 1)}}, pretend: [][]test{
			{isNot(0, 1), is(1, unix.RLIMIT_CORE), isNot(2, 0)},
			{isNot(0, 1), is(1, unix.RLIMIT_CORE), test{arg: 2, mask: all, op: notEqual, val: 0, upper: true}},
		}},
		rule{name: "setrlimit", pretend: [][]test{{is(0, unix.RLIMIT_CORE)}}},
	)
	// A thread that waits in one of these uses 64 bytes of kernel memory for each file in the
	// call, also for repeated ones, which no control group counts.
	few := test{mask: ^uint32(mostPolled), op: equal, val: 0}
	for _, c := range []struct {
		name string
		arg  int
	}{{"poll", 1}, {"ppoll", 1}, {"select", 0}, {"pselect6", 0}} {
		few.arg = c.arg
		out = append(out, rule{name: c.name, anyOf: [][]test{{few}}, otherwise: unix.EINVAL})
	}
	// For its own pid, or 0; the guest is 1.
	for _, name := range []string{"kill", "sched_setaffinity", "sched_setscheduler", "sched_setparam", "sched_setattr",
		"rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_open"} {
		out = append(out, rule{name: name, anyOf: [][]test{{isNot(0, 1)}}, otherwise: unix.EPERM})
	}
	// The guest's runtime sends these two signals to its threads. It ignores them if another
	// process sends them.
	const allThreads = 33
	out = append(out, rule{name: "tgkill", otherwise: unix.EPERM, anyOf: [][]test{
		{isNot(0, 1)}, {is(2, uint32(unix.SIGURG))}, {is(2, allThreads)},
	}})
	return append(out, identities(o)...)
}

// mostPolled is the maximum number of files for poll and select: four times the size of an fd_set.
// Programs that wait for more use epoll, whose memory is counted. It is one less than a power of
// two, to be a mask.
const mostPolled = 4095

// tiocLinux is the multiplexed request of the console.
const tiocLinux = 0x541c

// sockets allows unix sockets, routing over netlink, and TCP and UDP over IPv4 and IPv6. No program
// needs the kernel's code for other IP protocols (MPTCP, SCTP, DCCP, UDP-Lite, SMC, ICMP) over
// loopback. The protocol is an argument; if that is 0 it follows from the type.
func sockets() []rule {
	kind := func(v uint32) test { return test{arg: 1, mask: typeOfSocket, op: equal, val: v} }
	families := [][]test{{is(0, unix.AF_UNIX)}, {is(0, unix.AF_NETLINK), is(2, unix.NETLINK_ROUTE)}}
	var refused []refusal
	for _, family := range []uint32{unix.AF_INET, unix.AF_INET6} {
		for _, protocol := range []uint32{0, unix.IPPROTO_TCP} {
			families = append(families, []test{is(0, family), kind(unix.SOCK_STREAM), is(2, protocol)})
		}
		for _, protocol := range []uint32{0, unix.IPPROTO_UDP} {
			families = append(families, []test{is(0, family), kind(unix.SOCK_DGRAM), is(2, protocol)})
		}
		refused = append(refused,
			refusal{[]test{is(0, family), kind(unix.SOCK_RAW)}, unix.EPERM}, // as without the capability
			refusal{[]test{is(0, family)}, unix.EPROTONOSUPPORT})
	}
	return []rule{
		{name: "socket", anyOf: families, refused: refused, otherwise: unix.EAFNOSUPPORT},
		{name: "socketpair", anyOf: [][]test{{is(0, unix.AF_UNIX)}}, otherwise: unix.EAFNOSUPPORT},
		// It would change a TCP socket to another protocol (SMC, kernel TLS).
		{name: "setsockopt", refused: []refusal{{[]test{is(1, unix.IPPROTO_TCP), is(2, unix.TCP_ULP)}, unix.ENOPROTOOPT}}},
	}
}

// typeOfSocket are the bits of a socket's type without flags.
const typeOfSocket = 0xf

// modes allows mknod for files, pipes and sockets.
func modes(arg int) [][]test {
	kind := func(v uint32) test { return test{arg: arg, mask: unix.S_IFMT, op: equal, val: v} }
	return [][]test{{kind(0)}, {kind(unix.S_IFREG)}, {kind(unix.S_IFIFO)}, {kind(unix.S_IFSOCK)}}
}

// identities allows ids to change to any but the guest's own, with which root inside could signal
// the guest. The filesystem ids may change to any: they give no rights over a process that is not
// dumpable, and the guest itself changes back to its own after it has worked for a user.
func identities(o Options) []rule {
	var out []rule
	one := []struct {
		name string
		args int
		id   int
	}{
		{"setuid", 1, o.GuestUID}, {"setreuid", 2, o.GuestUID}, {"setresuid", 3, o.GuestUID}, {"setfsuid", 1, -1},
		{"setgid", 1, o.GuestGID}, {"setregid", 2, o.GuestGID}, {"setresgid", 3, o.GuestGID}, {"setfsgid", 1, -1},
	}
	for _, c := range one {
		if c.id < 0 {
			out = append(out, rule{name: c.name})
			continue
		}
		var tests []test
		for arg := range c.args {
			tests = append(tests, isNot(arg, uint32(c.id)))
		}
		out = append(out, rule{name: c.name, anyOf: [][]test{tests}, otherwise: unix.EPERM})
	}
	return out
}
