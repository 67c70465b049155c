// Package peer is the trust between the nodes of a fleet: who answers a connection from one node to another, and who opened it.
//
//	sealed, err := peer.NewAuthority(time.Now()) // once, by hortus fleet init; stored encrypted in the database
//	...
//	id := peer.New(peer.Config{Node: node, Authority: read, Known: known})
//	ln := tls.NewListener(tcp, id.Server())
//	conn, err := tls.Dial("tcp", address, id.Client(other))
//
// Each node issues its own certificate from the authority of the fleet, keeps it in memory, and renews it before its end. Both
// sides show one. A side checks that the other's comes from the same authority, is valid now, and names a node that the rows
// know; who connects also checks that it is the node that was meant.
//
// The package must not know where the authority and the rows are, or what is sent. An [Identity] has no goroutine and nothing to
// close, and may be used by several goroutines.
//
// # Reasons
//
// Who can read the database and the key of its secrets can read everything, so such a key is all that a node needs. A node
// that was given a certificate by hand, or by an authority with a server of its own, would protect nothing more.
package peer
