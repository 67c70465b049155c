// Package rest holds what the clients of forges share: the HTTP transport below
// the vendors' libraries, which keeps a token at its host, bounds answers, tries
// again where that is safe and gives failures the kinds of the api package; and
// the order of calls that makes opening a merge request idempotent ([Open]).
//
// The token is known to the transport alone: the libraries have none, so that it
// is in no URL, error or log of theirs. A server that answers is not trusted: an
// answer has bounds in bytes and time, and a redirect away from the API is an
// error.
//
// The package must not know any forge's messages, nor where settings come from. It
// starts no goroutine.
package rest
