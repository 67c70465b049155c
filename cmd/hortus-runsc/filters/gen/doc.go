// Gen writes compiled_GOARCH.bin into the current directory: the seccomp programs
// of the architecture that it runs on, as package precompile makes them.
package main
