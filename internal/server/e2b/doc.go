// Package e2b is the control plane of E2B's wire: the requests of an unmodified E2B SDK to the
// service (create, list, connect, pause, fork, kill; secrets, and the headers that they are sent in; volumes and their files; lifecycle events
// and webhooks). It decodes a request, calls the parts that it
// was given, and encodes the answer. It holds no state.
//
// Both generations of paths are served: /v2/sandboxes as in SDK 2.51, and /sandboxes as before. A
// request has its key in X-API-KEY, but one about the files of a volume has that volume's token; the owner of the key is an api.Principal in the context, by which
// the parts behind the server decide. For this server a sandbox of another account, one that has ended
// and one that never existed are the same.
//
// What is not supported is refused with 400 and a message that names the option. Nothing is accepted
// and ignored, including unknown options. Errors are always {"code", "message"}, because the SDKs read
// the code; an empty answer is 204.
//
// The package declares the interfaces that it calls. It must not know a store, a backend, how keys
// are stored, the data plane or the wiring. A handler's goroutines end with their request.
package e2b
