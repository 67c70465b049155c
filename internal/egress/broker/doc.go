// Package broker puts secrets into the requests of a sandbox, on the host. A program in the
// sandbox has a placeholder; the value of the secret never enters the sandbox.
//
//	b := broker.New(broker.Config{Value: store.Value, Record: store.Record})
//	s := b.Session(broker.Owner{Sandbox: "sbx_1", Account: "alice"})
//	defer s.Close()
//	err := s.SetGrants([]broker.Grant{{Placeholder: broker.NewPlaceholder(), Secret: secret}})
//	resp, err := s.RoundTrip(request, grant, cache, transport)
//
// A request in which a placeholder occurs must match exactly one binding of its secret: scheme,
// host, port, method, path and the place of the placeholder. Then the value is put in there.
// Every other request with a placeholder is refused before a byte of it is sent, or, if the
// placeholder is in the body, before the placeholder is complete; and it is recorded. Answers of
// hosts that a secret is bound to are searched for the value in its usual encodings, and it is
// replaced.
//
// A header rule needs no placeholder: it sets headers in every request over TLS to a host, in the
// place of what the program sent, with the values of secrets that are for headers. It allows
// nothing, and the answers of the host are searched as well.
//
//	err = s.SetHeaders(policy.Headers)
//
// A placeholder alone is worth nothing to others: it is valid in one sandbox only. That one is
// seen where it may not be is an alarm, not a loss.
//
// A session that never had grants reads only the heads of requests and names: that costs about
// a microsecond, and finds the placeholder of a sandbox that it was forked from. Bodies,
// WebSocket frames and TCP bytes are read only if the session has, or had, grants, because they
// are copied within the kernel, or not at all, otherwise.
//
// A [Broker] lives as long as its daemon, a [Session] as long as its sandbox is served. Neither
// has goroutines of its own. Values that were used are kept in the memory of the session until
// it is closed. The package must not know a store, the manager, or how names are resolved.
package broker
