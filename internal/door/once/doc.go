// Package once answers a request that was asked before under the same key as it was
// answered then, so that a client which does not know whether its request arrived
// can send it again.
//
// A key belongs to one account and to one request. What is kept of an answer is
// bytes that only the caller understands. A key is stored before the request is
// worked on and its answer before anybody sees it; both survive the daemon. A daemon
// that dies between the two leaves a key whose outcome nobody knows, and that is what
// anyone who asks again is told: guessing would make the same thing twice, or promise
// one that is not there.
//
// Answers are kept for a day, and of each account the newest few thousand.
//
// # Lives
//
// A request is worked on in its caller's goroutine; others with the same key wait
// for it in theirs. The package starts none.
//
// The package must not know HTTP, SQL or what is asked.
package once
