// Package network sets up the network of a sandbox: the loopback interface, and the capture
// of what leaves it.
//
// There is no other interface. A route makes every IPv4 address a local one, and netfilter
// rules redirect outgoing TCP connections and DNS queries to the ports of package birth, where
// the guest listens. The rules refuse all other packets that leave 127.0.0.0/8 and the
// sandbox's own address, at the system call that sends them. IPv6 has no route except ::1.
//
// [Capture] needs CAP_NET_ADMIN over the network namespace, which only the stage has; the guest
// and its commands cannot change the rules. They live as long as the namespace. If they cannot
// be installed there is no route either: without capture nothing is reachable.
//
//	if err := network.Up(); err != nil { ... }
//	if err := network.Capture(); err != nil { ... } // connections fail with ENETUNREACH
//
// The package is part of the stage and must stay small: it talks to the kernel with hand-made
// netlink messages, and must not know the guest.
package network
