package seccomp

import "golang.org/x/sys/unix"

// Options are what a policy depends on.
type Options struct {
	// GuestUID and GuestGID are ids that nobody may change to once the filter
	// holds; negative where the guest has none of its own.
	GuestUID, GuestGID int
}

const all = ^uint32(0)

func is(arg int, val uint32) test      { return test{arg, all, equal, val} }
func isNot(arg int, val uint32) test   { return test{arg, all, notEqual, val} }
func noBits(arg int, bits uint32) test { return test{arg, bits, equal, 0} }

// namespaces are the clone flags that make one.
const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER |
	unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWCGROUP

// Default is the policy of a sandbox.
func Default(o Options) *Policy {
	p := &Policy{nosys: []string{
		// A C library falls back to clone, whose flags a filter can read.
		"clone3",
		// Programs try these and have an older way.
		"io_uring_setup", "io_uring_enter", "io_uring_register", "statmount", "listmount",
		"memfd_secret", "set_mempolicy_home_node", "pidfd_getfd", "process_madvise",
	}}
	p.rules = append(p.rules, rule{name: "clone", anyOf: [][]test{{noBits(0, namespaces)}}, otherwise: unix.EPERM})
	p.rules = append(p.rules, sockets()...)
	p.rules = append(p.rules,
		// TIOCSTI and TIOCLINUX put words into a terminal's mouth; TIOCSETD
		// loads line disciplines.
		rule{name: "ioctl", anyOf: [][]test{{isNot(1, unix.TIOCSTI), isNot(1, tiocLinux), isNot(1, unix.TIOCSETD)}}, otherwise: unix.EPERM},
		// Query, Linux, and no address randomisation, which debuggers and some
		// runtimes want.
		rule{name: "personality", anyOf: [][]test{{is(0, 0)}, {is(0, 0x0040000)}, {is(0, 0xffffffff)}}, otherwise: unix.EPERM},
		// Nobody but the stage before the guest sets what follows from here on.
		rule{name: "prctl", anyOf: [][]test{{isNot(0, unix.PR_SET_MM), isNot(0, unix.PR_SET_PTRACER)}}, otherwise: unix.EPERM},
		// With a pid of its own, or 0; the guest is 1.
		rule{name: "prlimit64", anyOf: [][]test{{isNot(0, 1)}}, otherwise: unix.EPERM},
		rule{name: "kill", anyOf: [][]test{{isNot(0, 1)}}, otherwise: unix.EPERM},
		rule{name: "sched_setaffinity", anyOf: [][]test{{isNot(0, 1)}}, otherwise: unix.EPERM},
		rule{name: "sched_setscheduler", anyOf: [][]test{{isNot(0, 1)}}, otherwise: unix.EPERM},
		rule{name: "sched_setparam", anyOf: [][]test{{isNot(0, 1)}}, otherwise: unix.EPERM},
		rule{name: "sched_setattr", anyOf: [][]test{{isNot(0, 1)}}, otherwise: unix.EPERM},
		rule{name: "rt_sigqueueinfo", anyOf: [][]test{{isNot(0, 1)}}, otherwise: unix.EPERM},
		rule{name: "rt_tgsigqueueinfo", anyOf: [][]test{{isNot(0, 1)}}, otherwise: unix.EPERM},
		rule{name: "pidfd_open", anyOf: [][]test{{isNot(0, 1)}}, otherwise: unix.EPERM},
		// A device node is refused by nodev and by the user namespace too.
		rule{name: "mknod", anyOf: modes(1), otherwise: unix.EPERM},
		rule{name: "mknodat", anyOf: modes(2), otherwise: unix.EPERM},
	)
	p.rules = append(p.rules, identities(o)...)
	for _, name := range allowed {
		p.rules = append(p.rules, rule{name: name})
	}
	return p
}

// tiocLinux is the console's multiplexed request.
const tiocLinux = 0x541c

// sockets allows unix, IPv4, IPv6 and the routing part of netlink.
func sockets() []rule {
	families := [][]test{
		{is(0, unix.AF_UNIX)}, {is(0, unix.AF_INET)}, {is(0, unix.AF_INET6)},
		{is(0, unix.AF_NETLINK), is(2, unix.NETLINK_ROUTE)},
	}
	return []rule{
		{name: "socket", anyOf: families, otherwise: unix.EAFNOSUPPORT},
		{name: "socketpair", anyOf: [][]test{{is(0, unix.AF_UNIX)}}, otherwise: unix.EAFNOSUPPORT},
	}
}

// modes allows what mknod may make: files, pipes and sockets, and the whiteout,
// which is a character device 0:0 and harmless.
func modes(arg int) [][]test {
	kind := func(v uint32) test { return test{arg, unix.S_IFMT, equal, v} }
	return [][]test{{kind(0)}, {kind(unix.S_IFREG)}, {kind(unix.S_IFIFO)}, {kind(unix.S_IFSOCK)}, {kind(unix.S_IFCHR), is(arg+1, 0)}}
}

// identities lets ids change to anything but the guest's own, to which root
// inside could otherwise go in order to signal the guest. The ids for files alone
// are free: they give no right over a process that is not dumpable, and the guest
// itself goes back to its own after it has worked for somebody.
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
