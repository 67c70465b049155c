// Package precompile compiles gVisor's seccomp rules into the programs of package filters.
// It determines for which options of a sandbox programs exist.
//
// It is for the generator and the tests. The binary must not link it.
package precompile
