// Package embedded holds what release builds carry inside the one binary: the
// small guest that sandboxes run, and gVisor.
//
// `make build` puts the guest at guest/hortus-guest and gVisor at guest/hortus-runsc,
// and builds with the tags "embedguest" and "embedrunsc". Without the first, [Guest]
// is empty; then the hortus executable serves as the guest itself, which costs some
// megabytes and milliseconds for each sandbox and needs no preparation. Without the
// second, [Runsc] is empty, and there are no gVisor sandboxes.
//
// Both lie in the binary as they are, not compressed: a daemon copies them in less than
// 30 ms, where unpacking takes 180, and the archives of a release are compressed anyway.
//
// The package knows nothing of what the bytes do.
package embedded
