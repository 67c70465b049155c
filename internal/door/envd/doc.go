// Package envd is the door to the data plane of sandboxes, in the words of E2B's
// clients: commands, files and terminals of one sandbox, signed addresses of its
// files, and its ports.
//
// A request names its sandbox in the first label of its host (3000-ID.any.name), in
// headers (E2b-Sandbox-Id and E2b-Sandbox-Port), or, for a signed address, not at
// all: then the sandbox is the one whose token made the signature. Port 49983 is the
// guest's server; any other is a port inside. [Claims] tells such a request from
// those of other doors.
//
// Who holds a sandbox's token may do to that one sandbox what this door can do, and
// nothing to another; no key is requested. Tokens, signatures and keys never reach a
// guest. What can be learned without a token is whether a sandbox of a whole, known
// identifier is there, as E2B's clients need it.
//
// Commands go through the manager, so that they are recorded and outlive their
// client; what remains of the guest's wire is passed on by guestproxy. A stream whose
// sandbox ends beneath it is dropped without its last chunk, which is how clients
// tell that from an end.
//
// The door declares the interfaces that it calls; it must not know a store, a
// backend, where tokens come from, or the wiring. It owns no goroutine: what it does
// ends with the request that it is done for. A sandbox is woken by one request for
// all those that wait for it.
package envd
