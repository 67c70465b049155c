// Package identity holds the users that a guest may act as, and finds the user of a
// request.
//
//	ids, err := identity.NewSet(cfg)
//	id, err := ids.Of(req)
//	path := id.Resolve("~/file")
//
// A [Set] is created once. Its users do not change; their environment changes when a guest is
// claimed or restored, while no command is being started. The package does not check
// permissions: the kernel does, after packages credential and spawn have switched to the
// identity's ids.
package identity
