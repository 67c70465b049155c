// Package identity holds the users that a guest may act as, and finds the one that a
// request names.
//
//	ids, err := identity.NewSet(cfg)
//	id, err := ids.Of(req)
//	path := id.Resolve("~/file")
//
// A [Set] is made once. Its users do not change; their environment does when a guest is
// claimed or restored, while no command is being started. The package only computes: what an
// identity may do is decided by the kernel, after packages credential and spawn have taken
// on its ids.
package identity
