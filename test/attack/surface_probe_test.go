package attack

import (
	"bufio"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// families are the address families that a kernel may have, by their numbers.
var families = []string{"unspec", "unix", "inet", "ax25", "ipx", "appletalk", "netrom", "bridge", "atmpvc", "x25", "inet6", "rose",
	"decnet", "netbeui", "security", "key", "netlink", "packet", "ash", "econet", "atmsvc", "rds", "sna", "irda", "pppox", "wanpipe",
	"llc", "ib", "mpls", "can", "tipc", "bluetooth", "iucv", "rxrpc", "isdn", "phonet", "ieee802154", "caif", "alg", "nfc", "vsock",
	"kcm", "qipcrtr", "smc", "xdp", "mctp"}

// netlinks are the parts of the kernel behind netlink.
var netlinks = []string{"route", "unused", "usersock", "firewall", "sock_diag", "nflog", "xfrm", "selinux", "iscsi", "audit", "fib_lookup",
	"connector", "netfilter", "ip6_fw", "dnrtmsg", "kobject_uevent", "generic", "dm", "scsitransport", "ecryptfs", "rdma", "crypto", "smc"}

// protocols are those over IPv4 and IPv6 that need no right.
var protocols = []struct {
	name   string
	number int
}{
	{"icmp", unix.IPPROTO_ICMP}, {"tcp", unix.IPPROTO_TCP}, {"udp", unix.IPPROTO_UDP}, {"dccp", unix.IPPROTO_DCCP}, {"icmp6", unix.IPPROTO_ICMPV6},
	{"l2tp", unix.IPPROTO_L2TP}, {"sctp", unix.IPPROTO_SCTP}, {"udplite", unix.IPPROTO_UDPLITE}, {"smc", 256}, {"mptcp", unix.IPPROTO_MPTCP},
}

// runSurface prints what is left of the kernel from inside, a fact a line: its
// kind and its name.
func runSurface() int {
	sayf := func(kind, format string, args ...any) { fmt.Println(kind, fmt.Sprintf(format, args...)) }
	for n, name := range families {
		for _, kind := range []int{unix.SOCK_STREAM, unix.SOCK_DGRAM, unix.SOCK_SEQPACKET, unix.SOCK_RAW} {
			if n == unix.AF_NETLINK || fdErr(unix.Socket(n, kind, 0)) != nil {
				continue
			}
			sayf("socket", "%s", name)
			if kind == unix.SOCK_RAW && n != unix.AF_UNIX { // which takes it for another word for datagrams
				sayf("socket", "raw %s", name)
			}
		}
	}
	for _, p := range protocols {
		for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
			for _, kind := range []int{unix.SOCK_STREAM, unix.SOCK_DGRAM, unix.SOCK_SEQPACKET, unix.SOCK_DCCP} {
				if fdErr(unix.Socket(family, kind, p.number)) == nil {
					sayf("protocol", "%s", p.name)
				}
			}
		}
	}
	for n, name := range netlinks {
		if fdErr(unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, n)) == nil {
			sayf("socket", "netlink %s", name)
		}
	}
	mounts, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer mounts.Close()
	for s := bufio.NewScanner(mounts); s.Scan(); {
		// The fields before the dash: number, parent, device, root, place, options.
		f := strings.Fields(s.Text())
		_, after, _ := strings.Cut(s.Text(), " - ")
		if len(f) < 6 || after == "" {
			continue
		}
		mode, _, _ := strings.Cut(f[5], ",")
		sayf("mount", "%s %s %s", mode, strings.Fields(after)[0], f[4])
	}
	// What is a device, wherever it lies.
	walk := func(dir string, see func(path string, d fs.DirEntry)) {
		_ = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
			if err == nil {
				see(p, d)
			}
			return nil // what cannot be looked into is no surface
		})
	}
	walk("/dev", func(p string, _ fs.DirEntry) {
		// A node that is mounted over a file is a device all the same.
		if fi, err := os.Lstat(p); err == nil && fi.Mode()&fs.ModeDevice != 0 && filepath.Dir(p) != "/dev/pts" {
			sayf("device", "%s", strings.TrimPrefix(p, "/dev/"))
		}
	})
	const groups = "/sys/fs/cgroup"
	walk("/sys", func(p string, _ fs.DirEntry) {
		if strings.HasPrefix(p, groups) {
			p = groups // its files depend on the kernel
		}
		if p != "/sys" {
			sayf("sys", "%s", strings.TrimRight(p, "0123456789")) // a processor's number
		}
	})
	// What of /proc can be opened for writing: of this process, and beside.
	own := fmt.Sprintf("/proc/%d", os.Getpid())
	entries, err := os.ReadDir("/proc")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	writable := func(p string, d fs.DirEntry) bool {
		if !d.Type().IsRegular() {
			return false // a covered entry is a device
		}
		fd, err := unix.Open(p, unix.O_WRONLY|unix.O_NONBLOCK, 0)
		if err != nil {
			return false
		}
		unix.Close(fd)
		return true
	}
	for _, e := range entries {
		p := filepath.Join("/proc", e.Name())
		if strings.Trim(e.Name(), "0123456789") == "" {
			if p != own {
				continue
			}
			walk(p, func(p string, d fs.DirEntry) {
				rel, _ := filepath.Rel(own, p)
				if !strings.HasPrefix(rel, "task/") && !strings.HasPrefix(rel, "net/") && writable(p, d) {
					sayf("own", "%s", rel)
				}
			})
			continue
		}
		walk(p, func(p string, d fs.DirEntry) {
			if writable(p, d) {
				sayf("machine", "%s", p)
			}
		})
		b, err := os.ReadFile(p)
		below, derr := os.ReadDir(p)
		if err == nil && len(b) > 0 || derr == nil && len(below) > 0 {
			sayf("tells", "%s", e.Name())
		}
	}
	return 0
}
