// Package resolver answers the DNS queries of a sandbox. No query leaves it: the host says
// whether a name may be used, and the answer is an address of birth.FakeNetwork, which stands
// for the name. [Names] keeps which is which, for the connections that follow.
//
//	names := resolver.NewNames()
//	r := resolver.New(resolver.Config{Open: open, Names: names, Hostname: "sandbox"})
//	go r.ServePackets(ctx, udp)
//
// A name that is allowed has one A record and no others. One that is denied does not exist. If
// the host does not answer within 2 seconds the query fails.
//
// Queries come from programs of the sandbox and are not trusted: only the header and one
// question are read, and the number of queries at a time, names and connections is limited. A
// [Resolver] keeps a few streams to the host open for a while and opens new ones after the
// guest was quiesced. The package must not know how queries reach it.
package resolver
