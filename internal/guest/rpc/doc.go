// Package rpc serves HTTP/1.1 and Connect's calls and streams on connections, with
// net/http's parser and nothing else of it: the guest must stay small.
//
//	s := rpc.NewServer(rpc.Config{Handlers: map[string]rpc.Handler{"/health": health}, Await: await})
//	err := s.Serve(ctx, listener)
//
// A [Server] owns one goroutine per connection. [Server.Cut] ends all of them, without
// waiting: handlers that wait see [Conn.Ended], and [Server.AwaitNone] waits until every
// descriptor is closed. A panic in a handler closes its connection only.
//
// Clients are not trusted: heads, bodies, frames and the number of connections are limited.
// Connections from programs of the sandbox have handlers and a limit of their own. The
// package knows no path, no identity and no command.
package rpc
