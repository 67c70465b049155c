// Package guestproxy is what servers share that lead clients to a guest: a bounded
// reverse proxy to the guest's server, a command's events as frames of the guest's
// wire, and the joining of two streams.
//
// Both sides are hostile. Of a client's headers and of a guest's only those of the
// wire are passed on; heads are bounded, each request has a stream of its own so
// that nothing of one answer can be mistaken for another's, and a guest's own words
// about a failure never reach a client as the daemon's.
//
// The package holds no state and knows no server, manager or store. What it starts
// ends with the request that it was started for.
package guestproxy
