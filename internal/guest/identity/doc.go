// Package identity holds the users that a guest may act as, and finds the user of a
// request.
//
//	ids, err := identity.NewSet(cfg)
//	id, err := ids.Of(req)
//	path := id.Resolve("~/file")
//
// A [Set] is created once. Its users do not change; their environment changes when a guest is
// claimed or restored, and when the host changes what the sandbox trusts. A command gets the
// environment of the moment when its request is read. The package does not check
// permissions: the kernel does, after packages credential and spawn have switched to the
// identity's ids.
package identity
