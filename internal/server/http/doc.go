// Package http is the HTTP server: it decodes a request, asks the parts that it was
// given, and encodes what they answer. It holds no logic and no state of its own.
//
// Control calls speak JSON, strictly: an unknown field is an error that names it.
// Errors are api.Error as JSON, with the status of their kind. Events are
// server-sent events with the sequence number as id. A sandbox's data plane lies
// below /v1/sandboxes/ID/envd and is the guest's wire: commands go through the
// manager, which records them; everything else is passed on by a bounded proxy
// that treats the guest's answers as hostile.
//
// The server declares the interfaces that it calls; it must not know a store, a
// backend or the wiring. A handler's goroutines end with their request.
package http
