// Package strict stands between a listener and package net/http, and ends connections
// that carry what two programs could read in two ways, or of which there are too many.
//
// A request whose length one program takes from one header and the next one from
// another hides a second request, which only one of the two ever judges. Package
// net/http refuses much of that, but is generous where the standard lets it be: with
// both a Content-Length and a Transfer-Encoding it takes the latter, without a trace
// for handlers to see. Here every byte is looked at on its way in, heads and the
// framing of bodies alike, and what is not plainly one request after another goes no
// further: lengths that are given twice, codings other than chunked, a second Host,
// line ends that are not CR LF, folded lines, blanks before a colon, extensions of
// chunks.
//
// Nor is there room for any number of connections: see [Limits]. One that asks nothing
// makes way for one that may; one whose request is served, as a stream is, stays.
//
// A connection costs a line's worth of memory. The package knows nothing of who asks
// for what, starts no goroutine, and has nothing to close but the connections, which
// are their server's.
package strict
