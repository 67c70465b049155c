// Package outbound opens streams from the guest to its host.
//
// A guest cannot dial: the host opens every connection. A host that accepts streams
// therefore keeps requests of [envd.PathAccept] pending, and the guest answers one to open a
// stream:
//
//	q := outbound.New()
//	maps.Copy(handlers, q.Handlers())
//	s, err := q.Open(ctx) // waits until the host accepts
//	defer s.Close()
//
// A [Stream] ends with Close, with its connection, or when the guest is quiesced. A [Queue]
// starts no goroutine: each pending request is a goroutine of the server. The package must
// not depend on what a stream carries.
package outbound
