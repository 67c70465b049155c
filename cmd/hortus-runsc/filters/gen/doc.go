// Gen writes compiled_GOARCH.bin into the current directory: the seccomp programs that
// package precompile compiles for the architecture that it runs on.
package main
