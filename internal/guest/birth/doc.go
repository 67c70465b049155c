// Package birth is how a guest comes to life: the descriptors that it inherits
// and the few messages that it exchanges with the backend that starts it.
//
// A guest process inherits two descriptors. [ListenFD] is a listening unix
// stream socket on which it serves. [ControlFD] is one end of a SOCK_SEQPACKET
// pair, one JSON value a packet:
//
//	host -> guest   Config
//	guest -> host   Report: it listens and may be dialled, or why not
//	host -> guest   "go": the sandbox is recorded; for a guest that was started
//	                ahead the Claim follows in the same packet
//
// A guest whose control socket ends before "go" exits at once, so that a daemon
// that dies while it starts a sandbox leaves nothing behind. After "go" the
// guest closes the socket and does not depend on its host's life any more. A
// backend that needs a stage of its own before the guest (to build namespaces)
// speaks its own messages on the same socket first.
//
// A guest on a kernel of its own inherits no descriptor but the standard ones, and is
// told so by [ArgStdio]: the same exchange goes over its standard input, which stays
// open and brings its streams and what else the host has to say, one [Order] a packet.
// The socket's end is the guest's. A host's side has a method of [Control] for each.
//
// The host treats a Report as hostile: it is bounded in size and time, and
// nothing in it is followed.
//
// The package is imported by the guest and by backends; it must not import
// either.
package birth
