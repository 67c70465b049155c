// Package probe opens sockets inside a sandbox on behalf of a test outside of it.
//
// The program is small and knows nothing of attacks: it connects, sends, listens and pings as it
// is asked to, with the rights of the user who started it. What is sent (DNS messages, TLS
// handshakes, requests) is made by package check on the host, which reaches the probe at a
// port of the sandbox. So one program tests everything, and it survives a save and a fork of the
// sandbox together with its memory.
//
// It is a mode of the guest's executable, which is static and present in every build: a copy that
// is written into a sandbox under the name [Argv0] is the probe. The guest itself never runs it,
// and the mode gives nothing that a program could not do with a socket of its own.
//
//	$ ./hortus-egress-probe
//	40211
//
// The first process prints the port and exits; the second one serves it until the sandbox ends.
package probe
