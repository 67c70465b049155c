// Package fleet is a node's place among the nodes that share its database: its row, where things are, which node makes a new one, and
// the operations of hortus fleet.
//
//	f, err := fleet.Join(ctx, fleet.Config{Node: id, Owner: run, Name: "host-1", Address: "10.0.0.1:7071", Rows: db, ...})
//	...
//	forwarder := forward.New(forward.Config{Self: id, Directory: f, Choose: f.Choose, TLS: f.Identity().Client})
//	...
//	f.Close(ctx)
//
// Join stores the row and starts a goroutine that renews its lease with what the node has; Close ends it. Rows of nodes are remembered for a
// second at most.
//
// The package must not know servers and commands, or how things are made, moved and recovered.
package fleet
