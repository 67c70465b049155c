// Package hosted holds what the clients of hosted models share: an HTTP transport
// that bounds an answer while it comes, the translation of what can go wrong into
// the kinds of the api package.
//
// A server that answers is not trusted: an answer has bounds in bytes, in the
// size of one event, in the time without a byte and in the time altogether, and
// a redirect is an error, because the key of the first host is not for a second.
// Keys are never part of an error.
//
// The package must not know any vendor's messages, which model is the default,
// or where keys come from. It starts no goroutine that outlives a response body;
// timers end with it.
package hosted
