// Package rest has the common parts of the clients of forges: the HTTP transport of the
// vendors' libraries, which sends a token to its host only, bounds answers, retries where
// that is safe and returns api errors; and [Open], which makes opening a merge request
// idempotent.
//
// Only the transport has the token, so it cannot be part of a URL, error or log of a
// library. Servers are untrusted: answers are bounded in bytes and time, and a redirect away
// from the API is an error.
//
// The package must not know any forge's messages or where settings come from. It starts no
// goroutine.
package rest
