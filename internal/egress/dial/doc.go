// Package dial connects to a host on behalf of a sandbox. It resolves the name on the host,
// refuses addresses that a sandbox must not reach, and connects to exactly the address that
// it checked.
//
//	d := dial.New(dial.Config{})
//	conn, addr, err := d.Dial(ctx, "example.org", 443, false)
//
// Refused are private, loopback, link-local, multicast and reserved addresses, those of
// metadata services, and those of this host, in every form in which IPv6 can contain them.
// The argument private opens private and own addresses for the one name that a rule lists; it
// does not open metadata services and link-local addresses, unless the host is such an address
// itself. If some addresses of a name are refused, the others are used.
//
// An answer of the resolver is kept for a short time, so that all connections to a name use
// the same addresses. With a proxy, every connection is made through it; there is no direct
// fallback.
//
// A [Dialer] lives as long as the daemon. It has no goroutine of its own: a lookup runs in the
// goroutine of the first caller that needs it. The package must not know policies, sandboxes
// or what a connection carries.
package dial
