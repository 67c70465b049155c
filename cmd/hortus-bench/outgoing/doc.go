// Package outgoing measures the outgoing connections of sandboxes, compared with those of a process
// of the host that are direct or through squid or mitmproxy. Client and server are package load, in
// each case, and jobs take turns between them.
//
// A lane is one way from a client to the server, a job what is done on each lane. A rival is a line
// in the list of proxies.go. The package owns the processes and sandboxes that it starts, and the
// directory of the rivals; all of them end when Measure returns. It must not know a server, a store
// or a backend.
//
//	err := outgoing.Measure(ctx, outgoing.Config{N: 50, Backends: []string{"container"}, ...})
package outgoing
