package attack

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestNetlinkIsBounded: the kernel keeps what netlink sockets were answered and nobody
// read, which no control group counts, so a sandbox has few of them open.
func TestNetlinkIsBounded(t *testing.T) { onSharedKernel(t, netlinkIsBounded) }

func netlinkIsBounded(t *testing.T, w *world) {
	sandbox := w.create(t, nil)
	prog := w.program(t, sandbox.ID)
	b, err := os.ReadFile("/proc/sys/net/core/rmem_max")
	if err != nil {
		t.Fatal(err)
	}
	largest, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	most := min(max(64<<20/(2*largest), 16), 64)
	want := fmt.Sprintf("%d open, then too many open files in system\n"+
		"%[1]d on their way, then too many open files in system\n"+
		"%[1]d open again, then too many open files in system\n"+
		"interfaces: lo", most)
	for _, user := range sandbox.Identities {
		if r := w.exec(t, sandbox.ID, user, prog, roleProbe, "netlink 200"); r.stdout != want+"\n" && (w.isolation != "kubernetes" || r.stdout != want+" eth0\n") {
			t.Errorf("as %s: %q, %s; want %q", user, r.stdout, r.stderr, want)
		}
	}
	out, err := exec.Command("/proc/self/exe", roleProbe, "netlink 200").Output()
	if err != nil || !strings.HasPrefix(string(out), "200 open, then no error\n200 on their way, then no error\n") {
		t.Errorf("control: without the wall: %q, %v", out, err)
	}
}

// runNetlink opens up to n netlink sockets: and keeps them, or has their only descriptors
// on their way through a unix socket, or has closed all others before.
func runNetlink(n int) int {
	open := func() (fds []int, err error) {
		for len(fds) < n {
			fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
			if err != nil {
				return fds, err
			}
			fds = append(fds, fd)
		}
		return fds, nil
	}
	said := func(err error) string {
		if err == nil {
			return "no error"
		}
		return err.Error()
	}
	shut := func(fds ...int) {
		for _, fd := range fds {
			unix.Close(fd)
		}
	}
	fds, err := open()
	fmt.Printf("%d open, then %s\n", len(fds), said(err))
	pair, perr := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
	if perr != nil {
		fmt.Println(perr)
		return 1
	}
	if err := unix.Sendmsg(pair[0], []byte{0}, unix.UnixRights(fds...), nil, 0); err != nil {
		fmt.Println(err)
		return 1
	}
	shut(fds...)
	more, err := open()
	fmt.Printf("%d on their way, then %s\n", len(fds), said(err))
	shut(append(more, pair[:]...)...)
	fds, err = open()
	fmt.Printf("%d open again, then %s\n", len(fds), said(err))
	shut(fds...)
	all, err := net.Interfaces()
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Print("interfaces:")
	for _, i := range all {
		fmt.Print(" ", i.Name)
	}
	fmt.Println()
	return 0
}
