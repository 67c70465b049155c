// Package web serves the connections of a sandbox on the host: HTTP in clear, TLS that it
// terminates, TLS that it passes through, and other protocols over TCP.
//
//	s := web.New(web.Config{Leaf: ca.Leaf})
//	defer s.Close()
//	err := s.Serve(ctx, conn, grant, hooks) // returns when the connection has ended
//
// A connection was opened for a name. Serve checks on every request, also on one that reuses
// the connection and on every stream of HTTP/2, that the TLS server name and the Host header
// are that name, and that the server's certificate is valid for it. So a connection that is
// allowed for one host cannot be used for another one. What is forwarded is written anew from
// the parsed request: nothing that a server could read differently is passed on.
//
// [Hooks] decide and record; they belong to one connection. A [Server] belongs to one sandbox:
// connections to servers are reused within it, never between sandboxes. It has the goroutines
// of an http.Server, and Close waits for them.
//
// The client is hostile: the size and the time of everything that comes before a request are
// limited, bodies are streamed, and the number of requests at once is limited. The package must
// not know the tether, how names are resolved or how decisions are stored.
package web
