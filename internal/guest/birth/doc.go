// Package birth is the protocol by which a backend starts a guest: the descriptors that the
// guest inherits and the packets that both exchange.
//
//	host, file, err := birth.Pair() // file becomes the guest's ControlFD
//	err = host.Configure(ctx, cfg)
//	report, err := host.AwaitReport(ctx)
//	err = host.Go(ctx)
//
// A guest process inherits [ListenFD], a listening unix stream socket on which it serves,
// and [ControlFD], one end of a SOCK_SEQPACKET pair, with one JSON value a packet:
//
//	host -> guest   Config
//	guest -> host   Report: it can be dialled, or why not
//	host -> guest   "go": the sandbox is recorded; for a guest that was started
//	                ahead the Claim follows in the same packet
//
// If the control socket is closed before "go", the guest exits at once, so a daemon that
// dies while it starts a sandbox leaves nothing behind. After "go" the guest closes the
// socket and does not depend on its host any more. A backend with a stage before the guest
// (to build namespaces) sends its own messages on the same socket first.
//
// A guest on a kernel of its own inherits only the standard descriptors; [ArgStdio] selects
// this mode. The same exchange uses its standard input, which stays open for its streams and
// the host's orders, one [Order] a packet. The guest exits when the socket is closed.
// [Control] has a method for each order.
//
// The host does not trust a Report: it limits its size and the time to wait for it, and uses
// nothing in it as a path or an address.
//
// The guest and the backends import the package; it must not import either.
package birth
