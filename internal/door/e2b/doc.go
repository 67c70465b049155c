// Package e2b is the control plane of E2B's wire: what an unmodified E2B SDK asks of
// the service beside its sandboxes (make, list, connect, pause, fork, end). It decodes
// a request, asks the parts that it was given and encodes what they answer. It holds
// no state.
//
// Both generations of paths are served: /v2/sandboxes as SDK 2.51 has them and
// /sandboxes as those before. A request carries its key in X-API-KEY; whose it is goes
// into the context as an api.Principal, and the parts behind the door decide by it. To
// this door a sandbox of somebody else's, one that has ended and one that never was
// are the same.
//
// What cannot be honoured is refused with 400 and a message that names the option;
// nothing is accepted and ignored, an option that nobody knows included. Errors are
// {"code", "message"} always, since the SDKs look at the code; an empty answer is 204.
//
// The package declares the interfaces that it calls. It must not know a store, a
// backend, how keys are kept, the data plane or the wiring. A handler's goroutines end
// with their request.
package e2b
