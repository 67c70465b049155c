// Package tunnel carries a stream between a host and its guest in a WebSocket, for a guest on another machine that is
// reached through the HTTP proxy of a service.
//
//	go tunnel.Carry(conn, br, local, tunnel.Host) // both ends call it
//
// A stream begins with the handshake of RFC 6455 at [Path]. Both sides prove that they know the token of the sandbox:
// the host with [Proof] over the key of its handshake, and the guest with another one over the same key. The token
// itself is not sent. A proxy that connects the host to another sandbox, whose guest has another token, is noticed.
//
// Binary messages are the bytes of the stream, in both directions. An empty binary message is the end of a direction,
// as a half-closed connection has it; a close frame, or the end of the connection, is the end of both.
//
// # What it does not trust
//
// The proxy and the other end. A frame has at most [MaxFrame] bytes, and the memory of a stream is a constant. What is
// not a frame of this protocol ends the stream.
//
// The package must not know what a stream carries, or who proxies it. Carry's goroutine ends before it returns.
package tunnel
