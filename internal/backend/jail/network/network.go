package network

import (
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/guest/birth"
)

// Up brings up the loopback interface.
func Up() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	req, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	req.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, req)
}

// loopback is the index of the loopback interface in every network namespace.
const loopback = 1

// Capture redirects what leaves the sandbox to the guest, and refuses the rest. After an error
// there is no route, so that nothing leaves. The error is that of the kernel, for example
// because it has no nftables.
func Capture() error {
	// The rules come first: without them the route would lead to programs of the sandbox.
	if err := exchange(unix.NETLINK_NETFILTER, ruleBatch()); err != nil {
		return fmt.Errorf("netfilter rules: %w", err)
	}
	if err := exchange(unix.NETLINK_ROUTE, addresses()); err != nil {
		return fmt.Errorf("address and route: %w", err)
	}
	return nil
}

// addresses gives the interface the sandbox's own address and makes every other one local to
// it. The source of connections is the own address.
func addresses() *batch {
	own := netip.MustParseAddr(birth.OwnAddress).AsSlice()
	b := new(batch)
	// struct ifaddrmsg
	b.message(unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_EXCL, []byte{unix.AF_INET, 32, 0, unix.RT_SCOPE_HOST, loopback, 0, 0, 0}, func() {
		b.bytes(unix.IFA_LOCAL, own...)
		b.bytes(unix.IFA_ADDRESS, own...)
	})
	// struct rtmsg
	b.message(unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_EXCL, []byte{unix.AF_INET, 0, 0, 0, unix.RT_TABLE_LOCAL, unix.RTPROT_BOOT,
		unix.RT_SCOPE_HOST, unix.RTN_LOCAL, 0, 0, 0, 0}, func() {
		b.native32(unix.RTA_OIF, loopback)
		b.bytes(unix.RTA_PREFSRC, own...)
	})
	b.acknowledge()
	return b
}
