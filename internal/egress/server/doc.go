// Package server serves the outgoing connections of sandboxes for a manager: it puts together
// the presets of policies, the gateway and the certificate authorities.
//
//	s := server.New(server.Config{Gateway: g, Authority: a, Presets: p})
//	full, env, err := s.Resolve(ctx, request.Policy)
//	session := s.Serve(row, link, commands)
//	err = session.Apply(ctx, full)
//	defer session.Close()
//
// It implements sandbox.EgressServer. A [Server] lives as long as its daemon and has nothing to
// close but its sessions, which belong to their sandboxes.
//
// The package must not know a backend, a store or a server.
package server
