// Package machine reads facts about this host that the standard library does not offer:
// the kernel, the user, the package system and a clock that nobody sets.
//
//	now := machine.Uptime()
//	elapsed, boot := now()
//
// The package must not know anything of this program. It keeps no state.
package machine
