// Package gateway is the host's side of a sandbox's outgoing connections: it accepts the
// streams that a guest opens, decides about each by the sandbox's policy, carries what is
// allowed, and records every decision.
//
//	g := gateway.New(gateway.Config{Dialer: dial.New(dial.Config{}), Authority: a, Recorder: r})
//	s, err := g.Serve(peer, policy)
//	defer s.Close()
//	err = s.Apply(other) // closes what it does not allow
//
// The protocol on a stream is that of api/envd/egress.go. A connection is recorded once, when
// it ends; one that is denied at once. Equal decisions within a second are one record with a
// count.
//
// A [Session] belongs to one sandbox. When nothing happens it has one goroutine that waits for
// a stream, and that of an http.Server; Close ends all of them and waits. It ends by itself,
// quietly, when the guest is gone or cannot open streams. Sessions share nothing that one could
// hold up for others: the number of streams, connections, lookups, handshakes and questions is
// limited for each.
//
// The package must not know a backend, the manager, a store or a server.
package gateway
