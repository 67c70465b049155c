// Package filters gives gVisor its seccomp programs ready made.
//
// The sentry and the gofer each install a filter when they start. gVisor's own build
// compiles the filters ahead; a build of its Go module cannot, and then each start
// and each restore of a sandbox compiles them anew, which takes some 15 ms of every
// one. This package holds the programs for the options that hortus starts sandboxes
// with (compiled_GOARCH.bin, a few kilobytes), and puts them where gVisor looks for
// them. With other options gVisor finds none and compiles as before.
//
// A filter is a wall of the sandbox, so a stale one must never be used. The file
// bears the version of gVisor whose rules it was compiled from and is ignored by a
// binary with another; the tests hold every file to the version in go.mod, and
// compare, instruction by instruction, with what gVisor compiles itself.
//
// After an upgrade of gVisor, or when the options change (package precompile):
//
//	go generate ./filters
//
// which compiles for the other architecture under qemu-user's emulation.
//
// The package knows nothing of sandboxes. Its programs are handed over once, at the
// start of the process, and live as long as it.
package filters

//go:generate sh generate.sh
