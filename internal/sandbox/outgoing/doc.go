// Package outgoing holds what a manager does about the outgoing connections of its sandboxes: it
// resolves the policies of requests, and serves the connections of each sandbox by the policy in
// its row.
//
// A [Policies] resolves a request. An [Edit] changes what a sandbox that exists may connect to and
// which secrets it may use, and a [Follower] does so when the bindings of secrets change, in
// goroutines of its owner. A [Session] belongs to one live sandbox. It is begun when the sandbox
// runs and closed when the sandbox ends, is paused to disk or is left to another daemon; a pause
// in memory leaves it open. It starts no goroutine of its own.
//
//	r, err := outgoing.Policies{Server: server}.Resolve(ctx, outgoing.Request{Policy: req.Egress})
//	r.Set(&row)
//	s := outgoing.New(outgoing.Config{Server: server, Row: row, Link: link, Commands: commands})
//	err = s.Open(ctx) // before the sandbox is given to its user
//	defer s.Close()
//
// Everything fails closed: a policy that cannot be applied denies everything until it can.
//
// The package must not know how a connection is decided or made, a backend, a store or a server.
package outgoing
