// Package once makes requests idempotent: a repeated request with the same key gets the stored answer of
// the first one, so that a client can retry if it does not know whether its request arrived.
//
// A key belongs to one account and to one request. Answers are stored as bytes that only the caller
// interprets. A key is stored before its request is processed, and the answer before it is sent; both
// survive the daemon. If the daemon dies between the two, the outcome of the key is unknown, and a
// repeated request gets that as an error: a guess could carry out the request twice, or confirm one
// that never happened.
//
// Answers are stored for a day, up to the newest few thousand of each account.
//
// # Lives
//
// A request is processed in its caller's goroutine; others with the same key wait in theirs. The package
// starts no goroutine.
//
// The package must not know HTTP, SQL or the content of requests.
package once
