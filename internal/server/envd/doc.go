// Package envd is the server to the data plane of sandboxes, in the protocol of E2B's clients: commands,
// files and terminals of one sandbox, signed URLs of its files, and its ports.
//
// A request names its sandbox in the first label of its host (3000-ID.any.name), in headers
// (E2b-Sandbox-Id and E2b-Sandbox-Port), or, for a signed URL, not at all: then the sandbox is the one
// whose token made the signature. Port 49983 is the guest's server; any other is a port inside.
// [Claims] distinguishes such a request from those of other servers.
//
// The holder of a sandbox's token may do with that one sandbox everything that this server offers, and
// nothing with another; no API key is needed. Tokens, signatures and keys never reach a guest. Without
// a token a client can learn only whether the sandbox of a complete, known ID exists, as E2B's clients
// need it.
//
// Commands go through the manager, so that they are recorded and outlive their client. Package
// guestproxy passes on the rest of the guest's wire. If a sandbox ends during a stream, the stream is
// closed without its last chunk, by which clients distinguish that from a normal end.
//
// The server declares the interfaces that it calls; it must not know a store, a backend, where tokens
// come from, or the wiring. It owns no goroutine: its work ends with the request. The first request
// for a paused sandbox resumes it for all requests that wait.
package envd
