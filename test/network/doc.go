// Package network makes network namespaces for tests that are joined by a bridge: a hub, and one for each node. What passes between two
// of them can be dropped. It needs root, and Debian's iproute2 and iptables.
//
//	w := network.New(t, 3) // skips the test on a machine that may not
//	err := w.In(2, cmd.Start)
//	w.Cut(1, 2)
//
// A [Balancer] stands before servers and gives each request to the next one; it needs no rights.
//
// Namespaces, listeners and what they pass on end with the test. The package must not depend on what runs in a namespace.
package network
