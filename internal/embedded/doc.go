// Package embedded holds what release builds carry inside the one binary: the
// small guest that sandboxes run.
//
// `make build` puts the guest at guest/hortus-guest and builds with the tag
// "embedguest". Without the tag there is nothing to embed and [Guest] is empty;
// then the hortus executable serves as the guest itself, which costs some
// megabytes and milliseconds for each sandbox and needs no preparation.
//
// The package knows nothing of what the bytes do.
package embedded
