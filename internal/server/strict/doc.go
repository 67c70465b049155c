// Package strict is between a listener and package net/http. It closes connections whose bytes two
// programs could interpret differently, and limits the number of connections.
//
// If one program takes the length of a request from one header and the next program from another, a
// second request can be hidden that only one of them checks. Package net/http refuses much of that, but
// accepts what the standard permits: with both a Content-Length and a Transfer-Encoding it uses the
// latter, invisibly for handlers. This package inspects every byte of heads and of the framing of
// bodies. It rejects everything that is not clearly one request after another: duplicate lengths, codings
// other than chunked, a second Host, line ends other than CR LF, folded lines, spaces before a colon,
// chunk extensions.
//
// Connections may be encrypted ([NewTLSListener]): the same inspection then takes place inside TLS, and a connection may carry
// HTTP/2, whose framing leaves nothing to interpret.
//
// The number of connections is limited, see [Limits]. An idle connection is closed for a new one; a
// connection with a request in progress, for example a stream, is kept.
//
// A connection costs one line of memory. The package does not know what requests mean, starts no
// goroutine, and has nothing to close but the connections, which belong to their server.
package strict
