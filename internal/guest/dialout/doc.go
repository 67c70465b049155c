// Package dialout connects a guest to its host where only the guest can connect: from a pod of a cluster, whose network
// policy allows this one destination.
//
//	g, err := dialout.New(dial)            // from the environment of the guest's process
//	config, err := g.Fetch(ctx)            // with the ticket, once
//	err = g.Serve(ctx, func(c net.Conn) {…}) // a connection for each stream that the host opens
//
// # The wire
//
// Connections are TLS 1.3 to an IP address. The guest accepts one public key, whose digest it was started with, and no
// authority. A request of HTTP/1.1 says what the connection is for:
//
//   - POST [PathStart] with the ticket, and [HeaderReached] for each address that a network policy should have made
//     unreachable and did not. The answer is the configuration, and a token in [HeaderToken]. The host forgets the
//     ticket, so that who reads it later, in the description of a pod, has nothing.
//   - GET [PathStream] with the token, and an upgrade to [Protocol]. After the answer 101 the two ends change sides: the
//     host sends a handshake of package tunnel when it needs a stream, and the guest answers it.
//
// The guest keeps [Idle] connections ready, and makes another as soon as one is used. If the host restarts they end, and
// the guest connects again, with the token. A guest that cannot reach its host for Dial.Patience seconds ends.
//
// The package must not know what a configuration is or what streams carry. Serve's goroutines end before it returns.
package dialout
