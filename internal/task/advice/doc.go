// Package advice finds what a task that was not verified lacked in its sandbox, which has no network to download it, and tells a
// person how to install it.
//
//	a := advice.Adviser{Tools: tools, Debian: true}
//	text := a.Advise(ctx, task) // "" if it lacked nothing
//
// The package must not start or ask a sandbox. It keeps no state.
package advice
