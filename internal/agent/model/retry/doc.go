// Package retry makes a call of a model again when it failed in a way that
// may pass: overload, a rate limit, a network that broke, an answer that was cut.
//
// A try that failed is told in the stream, before the wait, as a
// model.Delta with a Retry; what was streamed until then is void. The waits grow,
// with chance in them, and are as long as a server asked for where it did. Tries
// and waits are bounded, and the context ends both.
//
// The package must not know any vendor, and no role. A [Model] holds nothing and
// is safe for several goroutines where the one within is.
package retry
