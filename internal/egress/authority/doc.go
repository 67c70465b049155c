// Package authority makes the certificates with which the host terminates the TLS connections
// of a sandbox.
//
//	a, err := authority.New(secret)
//	ca, err := a.CA(lineage)
//	bundle := ca.PEM()            // what the sandbox trusts
//	leaf, err := ca.Leaf("example.org")
//
// Everything that was forked or restored from one sandbox is a lineage and has one authority,
// so that processes that continue in a copy keep trusting it. An authority is a function of a
// secret of the host and the lineage: nothing is stored, and its certificate is the same each
// time. Its keys never leave the host.
//
// A [CA] keeps a bounded number of leaf certificates in memory; it has no goroutine and need
// not be closed. The package must not know sandboxes, policies or where the secret is from.
package authority
