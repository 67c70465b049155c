// Package retry repeats a call of a model after a temporary failure: overload, a rate limit, a broken
// connection, a truncated answer.
//
// A failed attempt is reported in the stream before the delay, as a model.Delta with a Retry; everything
// streamed before it is void. Delays grow, with jitter, and are as long as the server requests. Attempts and
// delays are limited, and the context ends both.
//
// The package must not know a vendor or a role. A [Model] holds no state and is safe for several goroutines if
// the wrapped model is.
package retry
