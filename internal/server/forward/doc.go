// Package forward passes requests from the node of a fleet that a client reached to the node that has what they are about.
//
//	f := forward.New(forward.Config{Self: node, Directory: directory, Choose: choose, TLS: identity.Client})
//	done, err := f.Pass(w, r, forward.About{Door: forward.DoorV1, Kind: forward.Sandbox, ID: id})
//	if done || err != nil {
//		return err // answered by the other node, or by nobody
//	}
//	... // it is here
//
// The door of the first node authenticates a request and counts it; [Forwarder.Pass] sends it on, streamed in both directions,
// and a [Receiver] at the listener of the other node gives it to the same door there, for the same principal. [Forwarder.Place] does so for
// requests that make something: it tries nodes in the order of Choose until one has capacity, and waits at the best one if none has.
//
// A request is passed on once. If the second node does not have the thing any more, it says so, and the first node looks again
// if the client sent no body that is gone. What a node says about a request is in headers whose names begin with Hortus-Node-: the
// forwarder removes those of clients, and only a Receiver reads them, behind a listener that verified who connected.
//
// The package must not know stores, what a principal may do, or how nodes trust each other. It starts no goroutine but those
// of package net/http; Close ends the idle connections. A nil [*Forwarder] is a daemon without a fleet: everything is here.
//
// # Reasons
//
// HTTP/1 between nodes, because HTTP/2 cannot upgrade a connection to another protocol as ports and terminals need it. Requests
// are not redirected: clients reach one address, perhaps through a load balancer, and nodes need no public names.
package forward
