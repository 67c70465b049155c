// Package front is the TCP front of a daemon: the listener with its limits, the order of the
// servers behind it, the API key of a request, and the paths for health checks and metrics.
//
//	on, err := front.Open(ctx, front.Config{Listen: "127.0.0.1:7070"})
//	...
//	f := &front.Front{Servers: servers, Authenticate: porter.Authenticate, Rest: 10 * time.Second, TLS: on.TLS}
//	err = front.NewServer(f, on.TLS, front.Bounds{}, track, log).Serve(on.Listener)
//
// No client is trusted: connections, heads and idle times are bounded, requests that can be
// read in two ways are refused, and a guest behind a server never sees an API key.
//
// The package must not know what a server does with a request. It holds no goroutine; the
// caller closes the listener and the server.
package front
