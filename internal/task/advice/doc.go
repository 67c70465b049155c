// Package advice tells a person how to install what a program did not find in its sandbox,
// which has no network to download it.
//
//	a := advice.Adviser{Tools: tools, Debian: true}
//	text := a.Advise(ctx, req, observe.Lack{Language: api.Python, Name: "pandas"})
//
// The package must not start or ask a sandbox. It keeps no state.
package advice
