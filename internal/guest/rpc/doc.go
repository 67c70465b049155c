// Package rpc serves HTTP/1.1 and Connect's calls and streams on connections. It uses only
// the parser of net/http, because the guest must stay small.
//
//	s := rpc.NewServer(rpc.Config{Handlers: map[string]rpc.Handler{"/health": health}, Await: await})
//	err := s.Serve(ctx, listener)
//
// A [Server] owns one goroutine per connection. [Server.Cut] ends all connections without
// waiting: blocked handlers see [Conn.Ended], and [Server.AwaitNone] waits until every
// descriptor is closed. A panic in a handler closes only its connection.
//
// Clients are not trusted: heads, bodies, frames and the number of connections are limited.
// Connections from programs of the sandbox have separate handlers and a separate limit. The
// package must not depend on paths, identities or commands.
package rpc
