// Package precompile compiles gVisor's seccomp rules into the programs that package
// filters hands out. It says which options of a sandbox there are programs for.
//
// It is for the generator and the tests: the binary must not link it.
package precompile
