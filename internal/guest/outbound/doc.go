// Package outbound opens streams from the guest to its host.
//
// A guest cannot dial: every connection comes from the host. A host that accepts streams
// therefore keeps requests of [envd.PathAccept] waiting, and the guest answers one when it
// wants a stream:
//
//	q := outbound.New()
//	maps.Copy(handlers, q.Handlers())
//	s, err := q.Open(ctx) // waits until the host accepts
//	defer s.Close()
//
// A [Stream] ends with Close, with its connection, or when the guest is quiesced. A [Queue]
// has no goroutine of its own: each waiting request is a goroutine of the server. The
// package must not know what a stream carries.
package outbound
