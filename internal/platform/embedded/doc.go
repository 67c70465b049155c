// Package embedded holds what release builds carry inside the one binary: the
// small guest that sandboxes run, and gVisor.
//
// `make build` puts the guest at guest/hortus-guest and gVisor, compressed, at
// guest/hortus-runsc.packed, and builds with the tags "embedguest" and "embedrunsc". Without
// the first, [Guest] is empty; then the hortus executable serves as the guest itself, which
// costs some megabytes and milliseconds for each sandbox and needs no preparation. Without
// the second, [Runsc] is nil, and there are no gVisor sandboxes.
//
// The guest lies in the binary as it is: every daemon copies it. gVisor is compressed to
// less than a third of its size. It is decompressed once for each data directory and build.
//
//	if runsc := embedded.Runsc(); runsc != nil {
//		r, err := runsc.Open()
//		...
//	}
//
// The package must not know where executables are put, nor who runs them.
package embedded
